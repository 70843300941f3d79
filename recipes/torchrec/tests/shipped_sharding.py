"""The methods test_sharding_* that torchrec ships, called on emulated NPUs with all that they draw (a program).

    python shipped_sharding.py FOLDER [METHOD ...]

Prints a JSON line a call: method, choices, the error on NPUs and on the CPU ("" where none), and what that means by the
rule of the grid. Their kernels in CUDA's unified memory are left out, and so is test_sharding_multiple_kernels, which
wants one. Tables in float16 are tried without their weighted ones, by the method's own option: torchrec's reference
hands float32 weights to PyTorch's EmbeddingBag, which refuses them beside float16 rows. Of the processes only the way
they start is ours.
"""

from __future__ import annotations

import inspect
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch  # noqa: E402
from grid.ranks import Failed, run  # noqa: E402
from grid.report import outcome  # noqa: E402
from torchrec.distributed.embedding_types import EmbeddingComputeKernel  # noqa: E402
from torchrec.distributed.fbgemm_qcomm_codec import CommType, QCommsConfig  # noqa: E402
from torchrec.distributed.test_utils.test_model_parallel import ModelParallelBase  # noqa: E402
from torchrec.distributed.test_utils.test_sharding import SharderType  # noqa: E402
from torchrec.distributed.types import ShardingType  # noqa: E402
from torchrec.modules.embedding_configs import PoolingType  # noqa: E402
from torchrec.types import DataType  # noqa: E402

assert_close = torch.testing.assert_close  # as it is before a rank has ours

SECONDS = 120.0
# Of a prediction, which the training step moves by 5e-4. The reference rounds gradients to float16, fused kernels
# only the new rows: on the CPU that is 2e-5, and the method's own 1e-5 is for float32.
HALF = 4e-5
IN_BACKWARD = {"embedding_bags": (torch.optim.SGD, {"lr": 0.01}), "embeddings": (torch.optim.SGD, {"lr": 0.2})}
FUSED = {"kernel_type": EmbeddingComputeKernel.FUSED.value}
METHODS: dict[str, dict[str, Any]] = {  # with the kernel that NPUs have, and what the method draws from one value
    "test_sharding_rw": FUSED,
    "test_sharding_dp": {
        "kernel_type": EmbeddingComputeKernel.DENSE.value,
        "apply_optimizer_in_backward_config": None,
    },
    "test_sharding_cw": FUSED,
    "test_sharding_twcw": FUSED,
    "test_sharding_tw": FUSED,
    "test_sharding_twrw": FUSED,
    "test_sharding_variable_batch": {},
    "test_sharding_grid": FUSED,
    "test_sharding_grid_8gpu": FUSED,
}
CHOICES: dict[str, dict[str, Any]] = {  # as the methods' own strategies have them, by a name for people
    "sharder_type": {"": SharderType.EMBEDDING_BAG_COLLECTION.value},
    "qcomms_config": {
        "": None,
        "quantised": QCommsConfig(forward_precision=CommType.FP16, backward_precision=CommType.BF16),
    },
    "apply_optimizer_in_backward_config": {"": None, "in backward": IN_BACKWARD},
    "variable_batch_size": {"": False, "batch by rank": True},
    "pooling": {"": PoolingType.SUM, "mean": PoolingType.MEAN},
    "data_type": {"": DataType.FP32, "fp16": DataType.FP16},
    "global_constant_batch": {"": False, "constant batch": True},
    "sharding_type": {
        kind.value: kind.value
        for kind in (
            ShardingType.TABLE_WISE,
            ShardingType.COLUMN_WISE,
            ShardingType.ROW_WISE,
            ShardingType.DATA_PARALLEL,
        )
    },
}


class Shipped(ModelParallelBase):
    """torchrec's class; its processes are forked by us, on `kind`."""

    kind = "npu"
    half = False
    log = Path(os.devnull)

    def setUp(self, backend: str = "hccl") -> None:
        super().setUp(backend=backend)
        self.device = torch.device(self.kind)
        self._build_tables_and_groups()

    def _test_sharding(self, **options: Any) -> None:  # type: ignore[override]
        self.half = options.get("data_type") is DataType.FP16
        if self.half:
            options["has_weighted_tables"] = False
        super()._test_sharding(**options)

    def _run_multi_process_test(self, *, callable: Callable[..., None], world_size: int = 2, **kwargs: Any) -> None:
        kwargs["backend"] = "hccl" if self.kind == "npu" else "gloo"

        def on_rank() -> None:
            if self.half:
                torch.testing.assert_close = _as_near_as_half
            callable(rank=int(os.environ["RANK"]), world_size=world_size, **kwargs)

        found = run(on_rank, kind=self.kind, world=world_size, log=self.log, seconds=SECONDS)
        if isinstance(found, Failed):
            raise _Said(found.error)


def _as_near_as_half(actual: Any, expected: Any, *, rtol: float = 0.0, atol: float = HALF) -> None:
    """As near as float16 tables allow, unless the method says how near: they round in another order than its own."""
    assert_close(actual, expected, rtol=rtol, atol=atol)


class _Said(Exception):
    """The error of a rank, as it is."""


def calls(method: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every combination of what the method draws."""
    parameters = [name for name in inspect.signature(_inner(method)).parameters if name != "self"]
    fixed = METHODS[method]
    drawn = [name for name in parameters if name not in fixed]
    for chosen in itertools.product(*(CHOICES[name].items() for name in drawn)):
        names = ", ".join(filter(None, (name for name, _ in chosen)))
        yield names, {**fixed, **dict(zip(drawn, (value for _, value in chosen), strict=True))}


def _inner(method: str) -> Callable[..., None]:
    """The test itself, without what draws its arguments or skips it where there is no CUDA."""
    found = inspect.unwrap(getattr(ModelParallelBase, method), stop=lambda f: hasattr(f, "hypothesis"))
    inner: Callable[..., None] = found.hypothesis.inner_test
    return inner


def error(method: str, kind: str, log: Path, arguments: dict[str, Any]) -> str:
    test = Shipped(method)
    test.kind, test.log = kind, log
    test.setUp("hccl")
    try:
        _inner(method)(test, **arguments)
    except _Said as said:
        return str(said)
    except Exception as raised:
        return f"{type(raised).__name__}: {raised}"
    return ""


def main(folder: Path, methods: list[str]) -> None:
    for method in methods or list(METHODS):
        for names, arguments in calls(method):
            npu = error(method, "npu", folder / "ranks.log", arguments)
            cpu = error(method, "cpu", folder / "ranks.log", arguments) if npu else ""
            row = {"method": method, "choices": names, "npu": npu, "cpu": cpu, "outcome": outcome(npu, cpu)}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
