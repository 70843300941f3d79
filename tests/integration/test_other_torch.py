"""The twin's wheel for another torch, built and tried in an environment of its own. Slow: it fetches 4 GB.

Needs g++, CMake, Ninja and the package index of this machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow
NEEDED = ["numpy==1.26.4", "pyyaml", "attrs", "decorator", "psutil", "scipy", "packaging", "setuptools<81", "pytest"]


def run(*argv: object, **env: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ASCEND_", "TWIN_", "LD_LIB"))}
    words = [str(word) for word in argv]
    done = subprocess.run(words, cwd=ROOT, env={**clean, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.parametrize(("torch", "torch_npu"), [("2.8.0", "2.8.0")])
def test_the_runtime_s_suite_passes_on_another_torch(tmp_path: Path, torch: str, torch_npu: str) -> None:
    python = tmp_path / "venv/bin/python"
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    uv = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python)
    run(*uv, f"torch=={torch}", *NEEDED)
    run(*uv, "--no-deps", f"torch_npu=={torch_npu}")
    wheel = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path)
    run(python, "-m", "pip", *wheel, ROOT / "twin/python")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", *tmp_path.glob("ascend_twin-*.whl"))
    told = run(python, "-m", "ascend_twin", "info")
    assert f"torch         {torch}\n" in told and f"torch_npu     {torch_npu}\n" in told and "made for" not in told
    assert run(python, "-m", "ascend_twin", "selftest").count("ok    ") == 5
    home = run(python, "-c", "from ascend_twin.home import PACKAGED; print(PACKAGED)").strip()
    quick = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:ascend_twin", "-m", "not slow")
    cores = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE", "TORCHINDUCTOR_COMPILE_THREADS": "1"}  # as in_image
    suite = run(python, *quick, "--rootdir", ROOT, ROOT / "twin/tests/runtime", TWIN_LIB64=f"{home}/lib64", **cores)
    assert " passed" in suite and "failed" not in suite
