"""CPU kernels of the operators beside their named peers, in one run.

    python benchmarks/operators.py [jagged] [sparse] [embedding] [hstu] [layer] [--threads 1,2] [--seconds S]
        [--output FOLDER] [--suffix TEXT]

prints a table per module and writes FOLDER/operators-cpu-MODULE.{json,md}. With a suffix, as -avx2, a processor of
another kind has results beside those.
"""

import argparse
import importlib
import json
import os
import time
from pathlib import Path

from operator_cases import memory

MODULES = ("jagged", "sparse", "embedding", "hstu", "layer")
CASES = "operator_cases"  # the package beside this file
RESULTS = Path(__file__).resolve().parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/operators.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"of {', '.join(MODULES)}; default: all")
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}", help="comma separated")
    parser.add_argument("--seconds", type=float, default=0.6, help="of each row cold, and as long warm, at least")
    parser.add_argument("--match", default="", help="only cases whose operator or shape has this text")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder")
    parser.add_argument("--suffix", default="", help="of the results' names")
    parser.add_argument("--peer-shares", type=Path, help=argparse.SUPPRESS)  # only measures them, into a file
    arguments = parser.parse_args()
    unknown = set(arguments.modules) - set(MODULES)
    if unknown:
        parser.error(f"unknown module {', '.join(sorted(unknown))}; expected some of {', '.join(MODULES)}")

    memory.keep()
    # Before the plugin is loaded: fbgemm's names stay with fbgemm_gpu's kernels, which are the peer.
    os.environ["MXREC_NO_FBGEMM_OVERRIDE"] = "1"
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    importlib.import_module("gr_ops")
    from operator_cases import report, shares, timing

    threads = sorted({int(count) for count in arguments.threads.split(",")})
    for name in arguments.modules or MODULES:
        module = importlib.import_module(f"{CASES}.{name}")
        chosen = (case for case in module.cases() if arguments.match in f"{case.operator} {case.shape}")
        if arguments.peer_shares:
            arguments.peer_shares.write_text(json.dumps(shares.measure(chosen, threads)))
            return
        peer_shares = shares.in_another_process(__file__, name, threads, arguments.match)
        started = time.perf_counter()
        print(f"\n{report.HEADER}")
        rows = []
        for row in timing.run(chosen, threads, arguments.seconds, peer_shares):
            print(report.line(row), flush=True)
            rows.append(row)
        if not arguments.match:
            report.write(rows, arguments.output / f"operators-cpu-{name}{arguments.suffix}", module.TITLE)
        print(f"{name}: {time.perf_counter() - started:.0f} s, {sum(row.missed for row in rows)} rows missed")


if __name__ == "__main__":
    main()
