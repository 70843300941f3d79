"""The command line: chooses cases, runs them, keeps what came out, and says whether enough of it passed."""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from .cases import DTYPES

RESULTS = "conformance.jsonl"
COMPARED = ("cases.py", "checks.py", "reasons.py", "tally.py", "transfer.py")  # what an outcome and its cause come from
READY = "ASCEND_TWIN_CONFORMANCE_CHILD"


DESCRIPTION = (
    "Runs PyTorch's own operator samples (OpInfo) on the emulated NPU and compares with the CPU: forward, backward, "
    "non-contiguous arguments, in-place and out= forms. Exit code 1 below 95 %, unless --docs says it."
)


def options() -> argparse.ArgumentParser:
    """The options, for the parser of `python -m ascend_twin selftest`."""
    p = argparse.ArgumentParser(add_help=False)
    p.add_argument("--full", action="store_true", help="every sample of every operator (docs/generated/conformance.md)")
    p.add_argument("--every", type=int, default=2, metavar="N", help="without --full: each N-th operator (2)")
    p.add_argument("--first", type=int, default=0, metavar="K", help="with --every: from the K-th on (0, the first)")
    p.add_argument("--ops", nargs="+", metavar="NAME", help="only these operators, with all their samples")
    p.add_argument("--recommender", action="store_true", help="only what recommender models use, with all samples")
    p.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    p.add_argument("--aten", choices=("override", "aclnn"), help="TWIN_ATEN; default: as it is set")
    p.add_argument("--jobs", type=int, default=max(1, min(4, os.cpu_count() or 1)), help="child processes at a time")
    p.add_argument("--output", type=Path, help="folder of the results; a --full run that was cut off goes on there")
    p.add_argument(
        "--docs", type=Path, help="write conformance.md, .csv and .json into this folder (conformance-aclnn with aclnn)"
    )
    return p


def parser() -> argparse.ArgumentParser:
    prog = "python -m ascend_twin.conformance"
    return argparse.ArgumentParser(prog=prog, parents=[options()], description=DESCRIPTION)


def main(argv: list[str]) -> int:
    options = parser().parse_args(argv)
    if os.environ.get(READY) != "1":
        command = [sys.executable, "-m", "ascend_twin.conformance", *argv]
        return subprocess.call(command, env=_environment(options.aten))
    return _run(options)


def _environment(aten: str | None) -> dict[str, str]:
    """The loader reads LD_LIBRARY_PATH only when a process starts, so the run is a process of its own."""
    env = {**os.environ, READY: "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"}
    env.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    home = env.get("ASCEND_HOME_PATH")
    libraries = env.get("TWIN_LIB64") or (f"{home}/lib64" if home else "")
    if libraries and libraries not in env.get("LD_LIBRARY_PATH", "").split(":"):
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, [libraries, env.get("LD_LIBRARY_PATH", "")]))
    if aten is not None:
        env["TWIN_ATEN"] = aten
    package = str(Path(__file__).resolve().parents[2])
    env["PYTHONPATH"] = ":".join(filter(None, [package, env.get("PYTHONPATH", "")]))
    return env


def _fingerprint(options: argparse.Namespace) -> dict[str, str]:
    """What must be equal for results to be continued: the twin's libraries, the wheels, the cases and the causes."""
    digest = hashlib.sha256()
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        for name in ("libascendcl.so", "libnnopbase.so", "libopapi.so", "libtwin_aten.so"):
            if folder and (library := Path(folder, name)).is_file():
                digest.update(library.read_bytes())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes() if source.name in COMPARED else b"")
    choice = [options.full, options.every, options.first, options.ops, options.recommender, options.dtypes]
    return {
        "twin": digest.hexdigest()[:16],
        "torch": importlib.metadata.version("torch"),
        "torch_npu": importlib.metadata.version("torch_npu"),
        "aten": os.environ.get("TWIN_ATEN", "override"),
        "cases": json.dumps(choice),
    }


def _run(options: argparse.Namespace) -> int:
    from . import cases, recommender, report, tally
    from .pool import Begun, Called, Ended, Tested, execute
    from .progress import Progress
    from .store import Store

    infos = cases.database()
    dtypes = tuple(options.dtypes)
    unknown = sorted(set(options.ops or []) - set(infos))
    if unknown:
        print(f"not in PyTorch's operator database: {', '.join(unknown)}", file=sys.stderr)
        return 2
    names = options.ops or ([name for name in recommender.OPERATORS if name in infos] if options.recommender else None)
    if names:
        chosen = cases.full({name: infos[name] for name in names}, dtypes)
    else:
        chosen = cases.full(infos, dtypes) if options.full else cases.quick(infos, dtypes, options.every, options.first)

    store = Store(options.output, RESULTS, _fingerprint(options))
    done = {(row.op, row.dtype) for row in store.rows}
    left = [case for case in chosen if (case.op, case.dtype) not in done]
    progress = Progress(len(chosen), len(done), store.rows)
    open_rows: dict[cases.Case, tally.Row] = {}
    started, before = time.monotonic(), store.seconds
    for event in execute(left, infos, jobs=options.jobs, log=store.log, tell=progress.line):
        if isinstance(event, Begun):
            open_rows[event.case] = tally.Row(event.case.op, event.case.dtype, no_samples=event.error)
        elif isinstance(event, Tested):
            open_rows[event.case].add(event.outcome)
        elif isinstance(event, Called):
            store.functions.update(event.functions)
        elif isinstance(event, Ended):
            row = open_rows.pop(event.case)
            store.add(row, before + time.monotonic() - started)
            progress.ended(row)

    facts = report.facts(store.fingerprint, store.rows, store.functions)
    if options.docs:
        report.write(options.docs, store.rows, facts)
    print(report.summary(store.rows))
    return 0 if options.docs or report.share(store.rows) >= report.REQUIRED else 1
