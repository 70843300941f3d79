"""The tables' own suites on PyTorch 2.8 and TorchRec 1.3, which the image of target cuda has (others: 2.6, 1.1)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.users_image import docker, inv

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "grstack/cuda:cuda-devel"
# What each has to pass at least: a collection that found less would be no failure of pytest's.
SUITES = {"embeddings/hybrid_torchrec/tests/distributed": 150, "embeddings/torchrec_embcache/tests/test_modules.py": 10}
# As grstack/suites.py sets them; there is no NPU here.
VARIABLES = {
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "2",
    "OMP_WAIT_POLICY": "PASSIVE",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    inv("build-image", "--target", "cuda", "--devel")


def test_the_image_has_another_torch_and_torchrec_than_that_for_npus() -> None:
    code = "import torch, torchrec; print(torch.__version__.partition('+')[0], torchrec.__version__)"
    assert docker("--network=none", IMAGE, "python", "-c", code).stdout == "2.8.0 1.3.0\n"


@pytest.mark.parametrize("suite", SUITES)
def test_the_suite_passes(suite: str) -> None:
    argv = ["docker", "run", "--rm", "--init", "--network=none", "--shm-size=1g", f"--volume={ROOT}:/source:ro"]
    argv += [f"--env={name}={value}" for name, value in VARIABLES.items()]
    argv += [IMAGE, "python", "-m", "pytest", "-q", "-m", "not slow and not twin", "-p", "no:cacheprovider"]
    argv += ["--rootdir", "/source", "--override-ini=pythonpath=/source", f"/source/{suite}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed[1]) >= SUITES[suite], done.stdout[-1000:]
