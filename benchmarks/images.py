"""Images from nothing but the fetched wheels: how long a build takes, what it takes unchanged, how large each layer is.

    .venv/bin/python -m benchmarks.images cpu [cuda] [npu] [--folder FOLDER] [--then COMMAND]

Writes benchmarks/results/images.{json,md}, an entry for each target. As root: the builds go to an engine of their own,
which has no image and no layer, in FOLDER (10 to 25 GiB, removed afterwards), and by a cache that holds wheels alone.
The image passes its smoke test there, without a GPU, before its figures count. --then runs a shell command beside that
engine (DOCKER_HOST) and cache (GRSTACK_CACHE) before they go, once for each target.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console

from grstack.choices import Choices
from grstack.paths import Paths
from grstack.session import Session

ROOT = Path(__file__).resolve().parent.parent
INV = str(Path(sys.executable).parent / "inv")
RESULT = ROOT / "benchmarks/results/images.json"
COLD, UNCHANGED = 600.0, 3.0  # seconds, on two cores


@contextmanager
def engine(folder: Path) -> Iterator[None]:
    """An empty engine, which every command after it uses.

    In a network namespace of its own, which has no network: there it can have no bridge, and it would take away that of
    the engine beside it. What it mounts goes with its namespace, so that the folder can be removed.
    """
    address = f"unix://{folder}/docker.sock"
    argv = ["dockerd", f"--host={address}", f"--data-root={folder}/data", f"--exec-root={folder}/exec"]
    argv += [f"--pidfile={folder}/pid", "--bridge=none", "--iptables=false", "--ip-masq=false"]
    argv = ["unshare", "--net", "--mount", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *argv]
    with (folder / "dockerd.log").open("w") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log)
    os.environ["DOCKER_HOST"] = address
    try:
        for _ in range(300):
            if subprocess.run(["docker", "version"], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(60)


def seconds(argv: list[str]) -> float:
    begin = time.monotonic()
    subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return round(time.monotonic() - begin, 2)


def fetched(target: str) -> Path:
    """Fetches the wheels that are not here yet; returns where they are."""
    s = Session(ROOT, Choices(target=target), Console(stderr=True))
    s.fetch()
    return s.paths.wheels


def passed(target: str) -> dict[str, int]:
    """Runs the smoke test of the image; raises CalledProcessError where a check fails."""
    devices = [] if target == "cpu" else ["--devices", "none"] if target == "cuda" else ["--platform", "twin"]
    seconds([INV, "smoke-test", "--target", target, *devices])
    checks = json.loads((ROOT / "build/smoke/smoke-report.json").read_text())["checks"]
    skipped = sum(bool(check["skipped"]) for check in checks)
    return {"passed": len(checks) - skipped, "skipped": skipped}


def layers(image: str) -> list[dict[str, Any]]:
    import docker

    history = docker.from_env().images.get(image).history()
    named = [{"made by": made_by(str(layer["CreatedBy"])), "MB": round(layer["Size"] / 1e6, 1)} for layer in history]
    return [layer for layer in reversed(named) if layer["MB"]]


def made_by(instruction: str) -> str:
    """As the Dockerfile has it: without the shell, arguments of the build, and the engine's remark."""
    return re.sub(r"^RUN .*?/bin/sh -c ", "RUN ", instruction).removesuffix(" # buildkit")[:100]


def measured(target: str) -> dict[str, Any]:
    words = [INV, "build-image", "--target", target]
    load = round(os.getloadavg()[0], 1)
    cold = seconds(words)
    loads = [load, *(round(value, 1) for value in os.getloadavg()[:2])]
    report = json.loads((ROOT / "build/build-report.json").read_text())
    unchanged = statistics.median(seconds(words) for _ in range(3))
    short = f"grstack/{target}:{'twin' if target == 'npu' else target}"
    found = layers(short)
    return {
        "date": date.today().isoformat(),
        "cores": os.cpu_count(),
        "machine": platform.platform(),
        "cold": {"seconds": cold, "limit": COLD, "load before, last minute, last 5": loads},
        "steps": {step["name"]: step["seconds"] for step in report["steps"] if step["status"] != "kept"},
        "unchanged": {"seconds": unchanged, "limit": UNCHANGED},
        "smoke test": passed(target),
        "MB": round(sum(layer["MB"] for layer in found)),
        "layers": found,
    }


def as_page(results: dict[str, dict[str, Any]]) -> str:
    lines = [
        "# Images: from nothing, unchanged, and by layer",
        "",
        "`python -m benchmarks.images`: built by an engine without a layer and a cache that holds the fetched wheels",
        f"alone; {COLD:.0f} s are the limit, {UNCHANGED:.0f} s for the build of what is there. The load is the"
        " machine's: before,",
        "and in the last minute and five minutes of the cold build, which itself keeps one to two cores busy.",
        "",
        "| target | cold, s | unchanged, s | MB | smoke test: passed, skipped | cores | load | date |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for target, row in results.items():
        smoke, cold = row["smoke test"], row["cold"]
        loads = ", ".join(map(str, cold["load before, last minute, last 5"]))
        lines.append(
            f"| {target} | {cold['seconds']:.0f} | {row['unchanged']['seconds']:.2f} | {row['MB']} |"
            f" {smoke['passed']}, {smoke['skipped']} | {row['cores']} | {loads} | {row['date']} |"
        )
    for target, row in results.items():
        lines += ["", f"## {target}", "", "| layer | MB |", "|---|---|"]
        lines += [f"| `{layer['made by'].replace('|', ' ')}` | {layer['MB']} |" for layer in row["layers"]]
        steps = ", ".join(f"{name} {seconds:.0f}" for name, seconds in row["steps"].items())
        lines += ["", f"Seconds of the cold build's steps: {steps}."] if steps else []
    return "\n".join(lines) + "\n"


def write(target: str, result: dict[str, Any]) -> None:
    results = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    results = dict(sorted({**results, target: result}.items()))
    RESULT.write_text(json.dumps(results, indent=1) + "\n")
    RESULT.with_suffix(".md").write_text(as_page(results))
    print(f"{target}: cold {result['cold']['seconds']:.0f} s of {COLD:.0f}, unchanged", end=" ")
    print(f"{result['unchanged']['seconds']:.2f} s of {UNCHANGED:.0f}, {result['MB']} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="+", choices=("cpu", "cuda", "npu"))
    parser.add_argument("--folder", type=Path, help="a new folder (default: a temporary one)")
    parser.add_argument("--then", help="a shell command, with this engine and cache")
    options = parser.parse_args()
    for target in options.targets:
        wheels = fetched(target)
        folder = options.folder or Path(tempfile.mkdtemp())
        if options.folder:
            folder.mkdir(parents=True)  # one that is there is not ours to remove: FileExistsError
        (folder / "cache").mkdir()
        (folder / "cache/wheels").symlink_to(wheels)
        os.environ["GRSTACK_CACHE"] = str(folder / "cache")
        shutil.rmtree(Paths.of(ROOT).scratch, ignore_errors=True)
        try:
            with engine(folder):
                result = measured(target)
                write(target, result)
                if options.then:
                    subprocess.run(options.then, shell=True, cwd=ROOT, check=True)
        finally:
            del os.environ["GRSTACK_CACHE"]
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
