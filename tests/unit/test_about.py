"""What `docker run grstack/...` says, for each target: every line to type names the image and its devices."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"torch": "2.6.0", "torchrec": "1.1.0", "gr_ops": "0.1", "hybrid_torchrec": "0.1"}


def said(place: Path, target: str, platform: str, image: str, **environment: str) -> str:
    """As in an image, where packages are here no more than their names and versions."""
    (place / "bin").mkdir()
    shutil.copy2((ROOT / f"docker/{target}/about.py").resolve(), place / "bin/about.py")
    content = {"target": target, "platform": platform, "image": image, "emulated": platform == "twin", "python": "3.11"}
    (place / "manifest.json").write_text(json.dumps(content))
    for name, version in PACKAGES.items():
        info = place / f"packages/{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    env = {**os.environ, "PYTHONPATH": str(place / "packages"), **environment}
    done = subprocess.run([sys.executable, place / "bin/about.py"], env=env, capture_output=True, text=True, check=True)
    assert not [line for line in done.stdout.splitlines() if len(line) > 120]
    return done.stdout


@pytest.mark.parametrize(
    ("target", "platform", "image", "devices", "device"),
    [
        ("cpu", "cpu", "grstack/cpu:cpu", "", "cpu"),
        ("cpu", "cpu", "grstack/cpu:cpu-py3.10", "", "cpu"),
        ("cuda", "cuda", "grstack/cuda:cuda", "--gpus all ", "cuda"),
        ("npu", "twin", "grstack/npu:twin", "", "npu"),
        ("npu", "cann", "grstack/npu:cann-8.5.0-910b", "DEVICES ", "npu"),
    ],
)
def test_it_tells_what_to_type(
    tmp_path: Path, target: str, platform: str, image: str, devices: str, device: str
) -> None:
    text = said(tmp_path, target, platform, image)
    assert text.startswith(f"grstack/{target}: ") and "torch 2.6.0, torchrec 1.1.0" in text
    assert ("emulated: correctness, not speed" in text) == (platform == "twin")
    assert f'docker run --rm --shm-size 1g {devices}-v "$PWD/data:/data" {image} \\\n' in text
    assert f"python -m gr_model.train --config smoke --device {device}\n" in text
    assert all(image in line for line in text.splitlines() if "docker run" in line)
    assert ("inv run --platform cann --print" in text) == (platform == "cann")
    assert "devel variant: inv build-image" in text


def test_a_devel_variant_says_so_and_names_itself(tmp_path: Path) -> None:
    text = said(tmp_path, "npu", "twin", "grstack/npu:twin", GRSTACK_VARIANT="devel")
    assert "with compilers, build tools and the tests" in text and "inv build-image" not in text
    assert all("grstack/npu:twin-devel" in line for line in text.splitlines() if "docker run" in line)
