"""Ranks and cases that go wrong, on the CPU with gloo: prints as JSON what the grid says of each (a program)."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from grid import check  # noqa: E402
from grid.cases import Case  # noqa: E402
from grid.ranks import Failed, run  # noqa: E402


def rank() -> int:
    return int(os.environ["RANK"])


def sums() -> dict[str, torch.Tensor]:
    """The all_reduce of 1 and 2, and this rank's half of the reduce_scatter of (1, 1) and (2, 2)."""
    dist.init_process_group("gloo")
    total, half = torch.tensor([rank() + 1.0]), torch.zeros(1)
    dist.all_reduce(total)
    dist.reduce_scatter_tensor(half, torch.full((2,), rank() + 1.0))
    return {"total": total, "half": half}


def robbed() -> dict[str, torch.Tensor]:
    """The same, where another program is after the port on which the ranks are to meet."""
    with socket.socket() as thief:
        if rank() == 0:
            with suppress(OSError):
                thief.bind(("", int(os.environ["MASTER_PORT"])))
                thief.listen()
        return sums()


def raises() -> None:
    if rank() == 1:
        raise ValueError("on purpose")
    time.sleep(60)


def aborts() -> None:
    if rank() == 1:
        os.abort()
    time.sleep(60)


def hangs() -> None:
    time.sleep(60)


def main(folder: Path) -> None:
    said: dict[str, str] = {}
    for function, seconds in ((sums, 20), (robbed, 20), (raises, 4), (aborts, 4), (hangs, 4)):
        result = run(function, kind="cpu", world=2, log=folder / "log", seconds=seconds)
        said[function.__name__] = result.error if isinstance(result, Failed) else repr(result)
    case = Case("table_wise", "fused", "rowwise_adagrad", 2)
    right = check.check(case, "cpu", folder / "log")
    said["right"] = right.error if right else "pass"
    check.FUSED["rowwise_adagrad"]["eps"] = 0.5  # the unsharded optimizer keeps its own
    wrong = check.check(case, "cpu", folder / "log")
    said["wrong"] = wrong.error if wrong else "pass"
    print(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
