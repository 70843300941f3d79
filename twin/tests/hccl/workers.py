"""One rank of a test, as a process: `workers.py WORKER RANK SIZE FOLDER` runs the worker of that name."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import disagreement_workers
import lost_rank_workers
import network_workers
import value_workers
from hccl_api import Job

MODULES = (value_workers, disagreement_workers, lost_rank_workers, network_workers)


def main() -> None:
    worker, rank, size, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    (run,) = [getattr(module, worker) for module in MODULES if hasattr(module, worker)]
    found = run(Job(rank, size, folder))
    (folder / f"result{rank}.json").write_text(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # failed streams are left as they are


if __name__ == "__main__":
    main()
