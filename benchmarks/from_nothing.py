"""From a checkout to a green smoke test on a machine with nothing: benchmarks/results/from-nothing.{json,md}.

    .venv/bin/python -m benchmarks.from_nothing

Clones the last commit into a new folder, gives it an empty cache, and runs `make smoke` there, downloads included. It
refuses to start where the engine holds images of ours: point DOCKER_HOST at a fresh engine, or use a new machine, on
which Docker itself is installed by the run (the table says whether it was there). Asked: 20 minutes on two idle cores.

    .venv/bin/python -m benchmarks.from_nothing --taken FOLDER --seconds 939 --engine-was-there no

records a run of `make smoke` that was made and timed by hand in a new clone.

    .venv/bin/python -m benchmarks.from_nothing --gate-seconds 3197 [--beside "what ran beside it"]

adds to the result the whole gate (`.ci/run`) of which that `make smoke` was the first part: 60 minutes are asked of it.
Both forms may be given at once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks/results/from-nothing.json"
LIMIT, GATE_LIMIT = 1200, 3600  # seconds


def images_of_ours() -> list[str]:
    if not shutil.which("docker"):
        return []
    argv = ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"]
    names = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.split()
    return [name for name in names if name.startswith("grstack/")]


def run() -> tuple[Path, float, bool]:
    if names := images_of_ours():
        raise SystemExit(
            f"this engine has images of ours ({names[0]}, ...): the run would not be from nothing\n"
            "  next:  DOCKER_HOST=unix:///path/to/a/fresh/engine.sock .venv/bin/python -m benchmarks.from_nothing"
        )
    engine = shutil.which("dockerd") is not None
    folder = Path(tempfile.mkdtemp(prefix="from-nothing-"))
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder / "grstack")], check=True)
    environment = {**os.environ, "GRSTACK_CACHE": str(folder / "cache")}
    started = time.monotonic()
    subprocess.run(["make", "smoke"], cwd=folder / "grstack", check=True, env=environment)
    return folder / "grstack", time.monotonic() - started, engine


def described(checkout: Path, seconds: float, engine: bool) -> dict[str, Any]:
    """The total, and where it went, by the reports that the build and the smoke test left in the checkout."""
    build = json.loads((checkout / "build/build-report.json").read_text())
    smoke = json.loads((checkout / "build/smoke/smoke-report.json").read_text())
    steps: dict[str, float] = defaultdict(float)
    for step in build["steps"]:
        if step["status"] not in {"built", "verified", "fetched"}:
            raise SystemExit(f"{step['name']} was {step['status']}: this run was not from nothing")
        steps[step["name"].partition("/")[0]] += step["seconds"]
    checks = {check["check"]: check["seconds"] for check in smoke["checks"]}
    rest = seconds - build["seconds"] - smoke["seconds"]
    head = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=checkout, capture_output=True, text=True, check=True
    )
    return {
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "commit": head.stdout.strip(),
        "engine was there": engine,
        "passed": smoke["passed"],
        "seconds": round(seconds, 1),
        "limit": LIMIT,
        "steps": {name: round(value, 1) for name, value in steps.items()},
        "build": round(build["seconds"], 1),
        "checks": {name: round(value, 1) for name, value in checks.items()},
        "smoke test": smoke["seconds"],
        "engine, tools, start of containers": round(rest, 1),
    }


def table(result: dict[str, Any]) -> str:
    verdict = "reached" if result["seconds"] <= result["limit"] else "missed"
    rows = [(f"build: {name}", value) for name, value in result["steps"].items()]
    if "build" in result:  # older results have steps one after the other
        rows.append(("build (wheels beside base, two operators at a time)", result["build"]))
    rows.append(("smoke test", result["smoke test"]))
    checks = ", ".join(f"{name} {value:.0f}" for name, value in result["checks"].items())
    beside = " (some side by side)" if sum(result["checks"].values()) > result["smoke test"] else ""
    rows.append(("engine, tools, start of containers", result["engine, tools, start of containers"]))
    rows.append(("total", result["seconds"]))
    engine = "was installed before" if result["engine was there"] else "was installed by it"
    if gate := result.get("gate"):
        word = "reached" if gate["seconds"] <= gate["limit"] else "missed"
        also = f" Beside it ran {gate['beside']}." if gate["beside"] else ""
        end = [
            "It was the first part of a whole gate (`.ci/run`) from nothing: Docker and the compilers purged, all "
            f"caches and images deleted before. The gate took {gate['seconds']:,.0f} s, {gate['seconds'] / 60:.0f} "
            f"minutes, {gate['limit'] / 60:.0f} asked: {word}.{also}",
            "",
        ]
    else:
        end = []
    return "\n".join(
        [
            "# From nothing to a green smoke test",
            "",
            f"`make smoke` in a new clone of {result['commit']}, empty caches, downloads included; Docker {engine}. "
            f"{result['cores']} cores, {result['machine']}. `python -m benchmarks.from_nothing`: its head says how.",
            "",
            f"{result['seconds'] / 60:.1f} minutes, {result['limit'] / 60:.0f} asked: {verdict}.",
            "",
            "| step | s |",
            "|---|---|",
            *(f"| {name} | {value:.1f} |" for name, value in rows),
            "",
            f"The smoke test's checks, s{beside}: {checks}.",
            "",
            *end,
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--taken", type=Path, help="the clone of a run that was made by hand")
    parser.add_argument("--seconds", type=float, help="its wall time")
    parser.add_argument("--engine-was-there", choices=["yes", "no"], help="whether Docker was installed before it")
    parser.add_argument("--gate-seconds", type=float, help="the wall time of the gate that it was the first part of")
    parser.add_argument("--beside", default="", help="what else ran on the machine then")
    options = parser.parse_args()
    if options.taken:
        if options.seconds is None or options.engine_was_there is None:
            parser.error("--taken wants --seconds and --engine-was-there")
        result = described(options.taken, options.seconds, options.engine_was_there == "yes")
    elif options.gate_seconds is not None:
        result = json.loads(RESULT.read_text())
    else:
        result = described(*run())
    if options.gate_seconds is not None:
        result["gate"] = {"seconds": options.gate_seconds, "limit": GATE_LIMIT, "beside": options.beside}
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    RESULT.with_suffix(".md").write_text(table(result))
    print(table(result))


if __name__ == "__main__":
    main()
