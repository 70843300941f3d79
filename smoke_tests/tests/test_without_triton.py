"""Triton is not everywhere: no wheel of it for aarch64, none in the image of target cpu. Here it cannot be imported."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUITES = ("embeddings/hybrid_torchrec/tests/cuda", "gr_model/tests/cuda", "kernels/gr_ops/tests/cuda")
COLLECT = """
import sys
sys.modules["triton"] = None
import pytest
options = ["-q", "--collect-only", "-rs", "-p", "no:cacheprovider", "-p", "no:ascend_twin", "--rootdir", sys.argv[1]]
sys.exit(pytest.main([*options, f"--override-ini=pythonpath={sys.argv[1]}", *sys.argv[2:]]))
"""
IMPORT = """
import importlib, pkgutil, sys
sys.modules["triton"] = None
for package in sys.argv[1:]:
    names = [package]
    while names:
        name = names.pop()
        module = importlib.import_module(name)
        found = pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}.")
        found = [name for finder, name, _ in found if finder.find_spec(name).origin.endswith(".py")]
        names += [name for name in found if not name.endswith((".cuda", ".__main__", ".tests"))]
        print(name)
"""
PACKAGES = ("gr_ops", "hybrid_torchrec", "torchrec_embcache", "gr_model", "smoke_tests")


def run(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_module_but_the_kernels_own_is_imported() -> None:
    done = run(IMPORT, *PACKAGES)
    assert done.returncode == 0, done.stderr
    assert {"gr_ops.library", "hybrid_torchrec.backends.choice", "gr_model.train"} <= set(done.stdout.split())


def test_the_kernels_suites_are_skipped_with_the_reason() -> None:
    done = run(COLLECT, str(ROOT), *(str(ROOT / suite) for suite in SUITES))
    assert done.returncode == 5, done.stdout + done.stderr  # no test is left, and no error
    skipped = re.search(
        r"SKIPPED \[(\d+)\] .* Triton, that these kernels are written in, is not installed", done.stdout
    )
    assert skipped and int(skipped[1]) == sum(len(list((ROOT / suite).glob("test_*.py"))) for suite in SUITES)
