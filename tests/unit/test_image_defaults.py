"""What a program in the image reads and writes where nobody says otherwise is what `inv run` mounts there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_data_and_runs_are_where_they_are_mounted() -> None:
    dockerfile = (ROOT / "docker/npu/Dockerfile").read_text()
    variables = dict(re.findall(r"\b(GRSTACK_\w+)=(\S+)", dockerfile))
    mounted = set(re.findall(r'Mount\(source=.*?name="(\w+)"', (ROOT / "grstack/commands.py").read_text()))
    assert variables == {"GRSTACK_DATA": "/data", "GRSTACK_RUNS": "/out"} and {"data", "out"} <= mounted
    train, folder = ((ROOT / "gr_model" / name).read_text() for name in ("train.py", "run/folder.py"))
    assert '"GRSTACK_DATA"' in train and '"GRSTACK_RUNS"' in folder


def test_an_image_asks_for_no_gpu_by_itself() -> None:
    """`--devices none`, and a pod without a GPU in its limits, get none on a host whose runtime is NVIDIA's too."""
    for file in (ROOT / "docker").rglob("Dockerfile"):
        code = "\n".join(line for line in file.read_text().splitlines() if not line.startswith("#"))
        assert not re.search(r"\b(NVIDIA|ASCEND)_VISIBLE_DEVICES|\bCUDA_VERSION", code), file
