"""python -m benchmarks.operators [jagged] [sparse] [--threads 1,2] [--rounds N] [--output benchmarks/results/NAME]"""

import argparse
import importlib
import os
from pathlib import Path

MODULES = ("jagged", "sparse")
RESULTS = Path(__file__).resolve().parent.parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="default: all")
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}", help="comma separated")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--output", type=Path, default=RESULTS / "operators-cpu-sparse")
    arguments = parser.parse_args()

    # Before the plugin is loaded: fbgemm's names stay with fbgemm_gpu's kernels, which are the peer.
    os.environ["MXREC_NO_FBGEMM_OVERRIDE"] = "1"
    importlib.import_module("gr_ops")
    from . import timing

    cases = []
    for name in arguments.modules or MODULES:
        cases += importlib.import_module(f".{name}", __package__).cases()
    print(timing.HEADER)
    threads = sorted({int(count) for count in arguments.threads.split(",")})
    rows = timing.run(cases, threads, arguments.rounds)
    title = "Operators on the CPU: jagged, prefix sums, permutation, bounds check, rank-1 gather"
    timing.write(rows, arguments.output, title, arguments.rounds)


if __name__ == "__main__":
    main()
