"""The toolchain's own figures, measured on this machine: prints a table and writes benchmarks/results/toolchain.json.

    .venv/bin/python -m benchmarks.toolchain [--cold]

Without --cold the built image is used as it is. With --cold every grstack image of the engine is removed first and a
cache is used that holds the downloaded wheels only; point DOCKER_HOST at a fresh engine to leave yours alone, and for a
build without any layer cache. "One operator changed" appends a comment to an operator's kernel, builds, runs the
operators' smoke check in the image, and takes the comment back.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from grstack.paths import Paths

ROOT = Path(__file__).resolve().parent.parent
INV = str(Path(sys.executable).parent / "inv")
KERNEL = ROOT / "kernels/operators/asynchronous_complete_cumsum/op_kernel/asynchronous_complete_cumsum.cpp"
TRAIN = (
    "python -m gr_model.train --config ml-100k-retrieval --device npu --data-dir /data --out /out/benchmark "
    "train.steps=50 train.eval_every=0 train.batch=128 model.max_items=200 model.dim=50 model.blocks=2"
)


def seconds(argv: list[str]) -> float:
    started = time.monotonic()
    subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def forget_what_is_built(cache: Path) -> None:
    """A private cache with the downloaded wheels only, no build/, and no image of ours. Layer caches go by label."""
    wheels = Paths.of(ROOT).wheels
    cache.mkdir(parents=True)
    (cache / "wheels").symlink_to(wheels)
    os.environ["GRSTACK_CACHE"] = str(cache)
    shutil.rmtree(ROOT / "build", ignore_errors=True)
    images = subprocess.run(
        ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"], capture_output=True, text=True, check=True
    ).stdout.split()
    ours = [name for name in images if name.startswith("grstack/")]
    if ours:
        subprocess.run(["docker", "rmi", "--force", *ours], check=True, stdout=subprocess.DEVNULL)


def one_operator_changed() -> float:
    text = KERNEL.read_text()
    try:
        KERNEL.write_text(f"{text}// {time.time()}\n")
        smoke = "python -m smoke_tests --out /tmp/smoke --data-dir /data --only operators "
        smoke += "--lock /source/locks/npu-py3.11-$(uname -m).json --manifest /opt/grstack/manifest.json"
        return seconds([INV, "run", smoke])
    finally:
        KERNEL.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cold", action="store_true", help="remove what is built first")
    options = parser.parse_args()
    figures: list[tuple[str, float, float]] = []
    if options.cold:
        forget_what_is_built(Path(tempfile.mkdtemp()) / "cache")
        figures.append(("cold image build, wheels cached", seconds([INV, "build-image"]), 480))
    else:
        subprocess.run([INV, "build-image"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    figures.append(("unchanged rebuild", statistics.median(seconds([INV, "build-image"]) for _ in range(3)), 3))
    figures.append(("inv --list", statistics.median(seconds([INV, "--list"]) for _ in range(5)), 0.5))
    figures.append(("one operator changed to a tested image", one_operator_changed(), 90))
    subprocess.run([INV, "build-image"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    figures.append(
        ("50 training steps on the emulated NPU, container start included", seconds([INV, "run", TRAIN]), 180)
    )

    print(f"{os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}")
    for name, value, limit in figures:
        print(f"{value:8.2f} s  of {limit:6.1f} s  {value / limit:5.2f}  {name}")
    result = {
        "cores": os.cpu_count(),
        "machine": platform.platform(),
        "figures": [{"name": n, "seconds": round(v, 2), "limit": limit} for n, v, limit in figures],
    }
    results = ROOT / "benchmarks/results"
    results.mkdir(exist_ok=True)
    (results / "toolchain.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
