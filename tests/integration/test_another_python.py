"""Images of a Python that the usual base does not have: built on its base, and smoke-tested. Slow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INV = Path(sys.executable).parent / "inv"

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("target", "image"), [("cpu", "grstack/cpu:cpu-py3.10"), ("npu", "grstack/npu:twin-py3.10")])
def test_an_image_of_python_3_10_passes_the_smoke_test(target: str, image: str) -> None:
    choice = ("--target", target, "--python", "3.10")
    subprocess.run([str(INV), "build-image", *choice], cwd=ROOT, check=True)
    argv = ["docker", "run", "--rm", "--network=none", image, "python", "-V"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert said.startswith("Python 3.10.")
    subprocess.run([str(INV), "smoke-test", *choice], cwd=ROOT, check=True)
    report = json.loads((ROOT / "build/smoke/smoke-report.json").read_text())
    assert report["passed"] and report["image"]["target"] == target
