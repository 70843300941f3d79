"""The command line: runs cases, keeps what came out of each, and writes docs/generated/torchrec-grid.md and .json."""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESULTS = "torchrec-grid.jsonl"
READY = "TORCHREC_GRID_CHILD"


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m grid",
        description="torchrec's own sharding tests (torchrec.distributed.test_utils) on emulated NPUs with hccl. A "
        "case that fails is run on the CPU with gloo too: one that fails there by the same error does not apply. Exit "
        "code 1 if a case fails on NPUs only, or by another error.",
    )
    chosen = p.add_mutually_exclusive_group()
    chosen.add_argument("--full", action="store_true", help="every case; without it a dozen that represent them")
    chosen.add_argument("--cases", nargs="+", metavar="NAME", help="these, as in table_wise-fused-sgd-plain-2")
    p.add_argument("--output", type=Path, help="folder of the results; a run that was cut off goes on there")
    p.add_argument("--docs", type=Path, help="write torchrec-grid.md and .json into this folder")
    p.add_argument("--minutes", type=float, default=float("inf"), help="start no case after these; go on by --output")
    return p


def main(argv: list[str]) -> int:
    options = parser().parse_args(argv)
    if os.environ.get(READY) != "1":
        return subprocess.call([sys.executable, "-m", "grid", *argv], env=_environment())
    return _run(options)


def _environment() -> dict[str, str]:
    """The loader reads LD_LIBRARY_PATH and OpenMP its threads only when a process starts."""
    env = {
        **os.environ,
        READY: "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "1",
        "OMP_NUM_THREADS": "1",
        "TWIN_NPU_COUNT": "4",
    }
    env.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    paths = {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    if "TWIN_LIB64" in env:
        paths["LD_LIBRARY_PATH"] = env["TWIN_LIB64"]
    return {**env, **{name: ":".join(filter(None, [path, env.get(name, "")])) for name, path in paths.items()}}


def _fingerprint() -> dict[str, str]:
    """What must be equal for results to be continued."""
    import torch_npu
    import torchrec

    digest = hashlib.sha256()
    ours = [Path(__file__).with_name(name) for name in ("cases.py", "check.py", "port.py", "ranks.py")]
    sources = [*Path(torchrec.__file__).parent.rglob("*.py"), *ours]
    folders = [Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    libraries = [folder / name for folder in folders for name in ("libascendcl.so", "libhccl.so", "libtwin_aten.so")]
    for path in [*sorted(sources), *(library for library in libraries if library.is_file())]:
        digest.update(path.read_bytes())
    versions = {name: importlib.metadata.version(name) for name in ("torch", "torch_npu", "fbgemm_gpu-cpu")}
    return {**versions, "torchrec": torchrec.__version__, "digest": digest.hexdigest()[:16], "npu": torch_npu.__name__}


def _run(options: argparse.Namespace) -> int:
    from . import report
    from .cases import Case, full, representative
    from .check import check

    chosen = [Case.of(name) for name in options.cases or ()] or (full() if options.full else representative())
    fingerprint = _fingerprint()
    with tempfile.TemporaryDirectory(prefix="torchrec-grid-") as scratch:
        folder = options.output or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        results = _load(folder / RESULTS, fingerprint)
        started = time.monotonic()
        for place, case in enumerate(chosen):
            if case.name in results:
                continue
            if time.monotonic() - started > 60 * options.minutes:
                print(f"{len(results)} of {len(chosen)} cases done; the same command goes on")
                return 3
            begun = time.monotonic()
            failed = check(case, "npu", folder / "ranks.log")
            on_cpu = check(case, "cpu", folder / "ranks.log") if failed else None
            errors = (failed.error if failed else "", on_cpu.error if on_cpu else "")
            result = report.Result(
                case.name,
                report.outcome(*errors),
                *errors,
                round(time.monotonic() - begun, 2),
            )
            results[case.name] = result
            with (folder / RESULTS).open("a") as file:
                file.write(json.dumps(vars(result)) + "\n")
            print(f"[{place + 1}/{len(chosen)}] {case.name}: {result.outcome} {result.npu}".rstrip(), flush=True)
    done = [results[case.name] for case in chosen]
    if options.docs:
        report.write(options.docs, done, fingerprint)
    print(report.summary(done))
    return 1 if any(result.outcome == "fail" for result in done) else 0


def _load(path: Path, fingerprint: dict[str, str]) -> dict[str, object]:
    from .report import Result

    if path.is_file():
        first, *lines = path.read_text().splitlines()
        if json.loads(first) == fingerprint:
            results = [Result(**json.loads(line)) for line in lines if line.endswith("}")]
            return {result.case: result for result in results}
        path.replace(path.with_suffix(".old.jsonl"))
    path.write_text(json.dumps(fingerprint) + "\n")
    return {}
