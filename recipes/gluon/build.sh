#!/usr/bin/env bash
# Of the locked Triton what compiling for an NVIDIA GPU needs. Left out: the profiler, disassemblers, the assembler for
# Blackwell, and AMD's back end, also of the entry points, since Triton imports all that it finds there.
set -euo pipefail

"$GRSTACK_PYTHON" - "$GRSTACK_WHEELS" "$GRSTACK_OUT" <<'PYTHON'
import re
import sys
import zipfile
from pathlib import Path

wheels, out = map(Path, sys.argv[1:])
(wheel,) = wheels.glob("triton-*.whl")
wanted = re.compile(
    r"triton/(?!profiler/|backends/amd/).*\.py"
    r"|triton/_C/libtriton\.so"
    r"|triton/backends/nvidia/(bin/ptxas|lib/libdevice\.10\.bc)"
    r"|triton-[^/]*\.dist-info/(METADATA|WHEEL|(licenses/)?LICENSE|entry_points\.txt)"
)
with zipfile.ZipFile(wheel) as archive:
    archive.extractall(out, [name for name in archive.namelist() if wanted.fullmatch(name)])
(out / "triton/backends/nvidia/bin/ptxas").chmod(0o755)
(points,) = out.glob("triton-*.dist-info/entry_points.txt")
points.write_text("[triton.backends]\nnvidia = triton.backends.nvidia\n")
PYTHON
strip --strip-unneeded "$GRSTACK_OUT/triton/_C/libtriton.so"

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
wheel=("$GRSTACK_WHEELS"/triton-*.whl)
locked=${wheel[0]##*/triton-}
PYTHONPATH=$GRSTACK_OUT TRITON_CACHE_DIR=$scratch \
    "$GRSTACK_PYTHON" "$GRSTACK_SOURCE/recipes/gluon/check.py" "$GRSTACK_OUT" "${locked%%-*}"
