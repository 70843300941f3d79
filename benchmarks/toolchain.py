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
from collections.abc import Callable
from pathlib import Path

from grstack.engines.names import KEY
from grstack.paths import Paths

ROOT = Path(__file__).resolve().parent.parent
INV = str(Path(sys.executable).parent / "inv")
RESULT = ROOT / "benchmarks/results/toolchain.json"
KERNEL = ROOT / "kernels/operators/asynchronous_complete_cumsum/op_kernel/asynchronous_complete_cumsum.cpp"
TRAIN = (
    "python -m gr_model.train --config ml-100k-retrieval --device npu --data-dir /data --out /out/benchmark "
    "--overwrite train.steps=50 train.eval_every=0 train.batch=128 model.max_items=200 model.dim=50 model.blocks=2"
)


def seconds(argv: list[str]) -> float:
    started = time.monotonic()
    subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def forget_what_is_built(cache: Path) -> None:
    """A private cache with the downloaded wheels alone, nothing built, no image of ours. Layer caches go by label."""
    wheels = Paths.of(ROOT).wheels
    cache.mkdir(parents=True)
    (cache / "wheels").symlink_to(wheels)
    os.environ["GRSTACK_CACHE"] = str(cache)
    paths = Paths.of(ROOT)
    for folder in (paths.scratch, paths.local, paths.logs):  # build/out is the user's
        shutil.rmtree(folder, ignore_errors=True)
    list_images = ["docker", "images", "--filter", f"label={KEY}", "--format", "{{.Repository}}:{{.Tag}}"]
    images = subprocess.run(list_images, capture_output=True, text=True, check=True).stdout.split()
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


def record(figures: list[tuple[str, float, float]]) -> None:
    """Writes what has been measured so far: a later step that fails takes nothing with it."""
    name, value, limit = figures[-1]
    print(f"{value:8.2f} s  of {limit:6.1f} s  {value / limit:5.2f}  {name}", flush=True)
    result = {
        "cores": os.cpu_count(),
        "machine": platform.platform(),
        "figures": [{"name": n, "seconds": round(v, 2), "limit": limit} for n, v, limit in figures],
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cold", action="store_true", help="remove what is built first")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}", flush=True)
    figures: list[tuple[str, float, float]] = []

    def measure(name: str, limit: float, figure: Callable[[], float], times: int = 1) -> None:
        figures.append((name, statistics.median(figure() for _ in range(times)), limit))
        record(figures)

    subprocess.run([INV, "fetch-data", "ml-100k"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    if options.cold:
        forget_what_is_built(Path(tempfile.mkdtemp()) / "cache")
        measure("cold image build, wheels cached", 360, lambda: seconds([INV, "build-image"]))
    else:
        subprocess.run([INV, "build-image"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    measure("unchanged rebuild", 3, lambda: seconds([INV, "build-image"]), times=3)
    measure("inv --list", 0.5, lambda: seconds([INV, "--list"]), times=5)
    measure("one operator changed to a tested image", 60, one_operator_changed)
    subprocess.run([INV, "build-image"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    measure(
        "50 training steps on the emulated NPU, container start included", 180, lambda: seconds([INV, "run", TRAIN])
    )


if __name__ == "__main__":
    main()
