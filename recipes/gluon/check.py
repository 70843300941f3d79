"""Compiles a kernel in Gluon for Hopper by what build.sh has kept, without a GPU. usage: check.py FOLDER VERSION"""

import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

HOPPER = GPUTarget("cuda", 90, 32)


@gluon.jit
def exponentials(x, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.arange(0, BLOCK, layout=layout)
    gl.store(x + i, gl.exp(gl.load(x + i, mask=i < n)), mask=i < n)


folder, version = sys.argv[1:]
if triton.__version__ != version or not triton.__file__.startswith(f"{folder}/"):
    sys.exit(f"gluon: Triton {triton.__version__} of {triton.__file__}, in place of the locked {version} of {folder}")
signature = {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}
made = triton.compile(GluonASTSource(exponentials, signature, {"BLOCK": 128}), target=HOPPER)
if not made.asm["cubin"].startswith(b"\x7fELF"):
    sys.exit("gluon: what was compiled is no cubin")
print(f"Triton {version} compiles for Hopper: {len(made.asm['cubin'])} bytes")
