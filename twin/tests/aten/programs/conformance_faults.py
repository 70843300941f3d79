"""Conformance over operators that are wrong, crash or hang on the NPU; each costs its own samples. Prints the rows."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "python"))

import torch  # noqa: E402
from ascend_twin.conformance import cases, pool, tally  # noqa: E402


class Sample:
    def __init__(self, value: float) -> None:
        self.input = torch.full((4,), value)
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}

    def noncontiguous(self) -> Sample:
        raise NotImplementedError

    def output_process_fn_grad(self, result: Any) -> Any:
        return result


class Info:
    """As much of an OpInfo as the conformance run asks for; samples hold 0, 1, 2, 3."""

    supports_autograd = supports_out = False

    def __init__(self, name: str, call: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.name, self.call = name, call

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        return self.call(tensor)

    def get_inplace(self) -> None:
        return None

    def supported_backward_dtypes(self, device: str) -> set[torch.dtype]:
        return set()

    def sample_inputs(self, device: str, dtype: torch.dtype, requires_grad: bool) -> Iterator[Sample]:
        if self.name == "no samples":
            raise RuntimeError("none here")
        return (Sample(float(value)) for value in range(4))


def on_npu(tensor: torch.Tensor, value: float, fault: Callable[[], Any]) -> torch.Tensor:
    if tensor.device.type == "npu" and tensor[0].item() == value:
        fault()
    return tensor * 2


def refuse(tensor: torch.Tensor) -> torch.Tensor:
    raise ValueError("not on the CPU")


class Taken:
    """A device that fails as torch_npu lets it: whoever meets the error first takes it away, and all that comes after
    in the process is wrong."""

    failed = False

    def call(self, tensor: torch.Tensor, value: float) -> torch.Tensor:
        if tensor.device.type == "npu" and self.failed:
            return tensor * 3
        if tensor.device.type == "npu" and tensor[0].item() == value:
            self.failed = True
            raise RuntimeError("The Inner error is reported as above. The process exits for this inner error")
        return tensor * 2


TAKEN = Taken()
OPERATORS = {
    "right": lambda t: t * 2,
    "wrong": lambda t: t * (3 if t.device.type == "npu" else 2),
    "raises": lambda t: on_npu(t, 2, lambda: [][0]),
    "crashes once": lambda t: on_npu(t, 1, os.abort),
    "crashes always": lambda t: on_npu(t, t[0].item(), os.abort),
    "exits": lambda t: on_npu(t, 3, lambda: os._exit(5)),
    "fails on the device": lambda t: TAKEN.call(t, 1),
    "hangs": lambda t: on_npu(t, 0, lambda: time.sleep(60)),
    "random": lambda t: torch.bernoulli(torch.full((64,), 0.5, device=t.device)),
    "on the CPU": lambda t: (t * 2).cpu(),
    "CPU refuses": refuse,
    "no samples": lambda t: t,
}


def main() -> None:
    pool.SAMPLE_SECONDS = 5
    infos = {name: Info(name, call) for name, call in OPERATORS.items()}
    rows: dict[str, tally.Row] = {}
    chosen = [cases.Case(name, "float32") for name in infos]
    log = Path(sys.argv[1]) / "children.log"
    for event in pool.execute(chosen, infos, jobs=2, log=log, tell=lambda text: None):
        if isinstance(event, pool.Begun):
            rows[event.case.op] = tally.Row(event.case.op, event.case.dtype, no_samples=event.error)
        elif isinstance(event, pool.Tested):
            rows[event.case.op].add(event.outcome)
    print(json.dumps({name: vars(row) for name, row in rows.items()}))


if __name__ == "__main__":
    main()
