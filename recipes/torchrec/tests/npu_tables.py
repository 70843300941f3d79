"""Trains the tables of table_cases.py on a device, each case in its turn (run as a program).

    python npu_tables.py npu FOLDER

FOLDER/<case>.pt has what `table_cases.trained` gives. With TWIN_COUNTS each step of a case is marked `step <case>`.
"""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import table_cases as cases
import torch
from table_cases import Case
from torch import Tensor


def make_module(case: Case, device: torch.device, **options: Any) -> Any:
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, WeightDecayMode
    from torchrec.distributed.npu_embedding_kernel import NpuSplitTableBatchedEmbeddingBags

    rowwise = {"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD}
    decaying = {**rowwise, "weight_decay": cases.DECAY}
    settings: dict[str, dict[str, Any]] = {
        "sgd": {"optimizer": EmbOptimType.EXACT_SGD},
        "adagrad": {"optimizer": EmbOptimType.EXACT_ADAGRAD},
        "rowwise_adagrad": rowwise,
        "rowwise_l2": {**decaying, "weight_decay_mode": WeightDecayMode.L2},
        "rowwise_decouple": {**decaying, "weight_decay_mode": WeightDecayMode.DECOUPLE},
        "rowwise_norm": {**rowwise, "max_norm": cases.MAX_NORM},
        "adam": {"optimizer": EmbOptimType.ADAM},
        "adamw": {"optimizer": EmbOptimType.ADAM, "weight_decay": cases.DECAY},
    }
    module = NpuSplitTableBatchedEmbeddingBags(
        [(r, d, EmbeddingLocation.HOST, ComputeDevice.CPU) for r, d in zip(cases.ROWS, case.dims, strict=True)],
        feature_table_map=cases.FEATURE_TABLE,
        pooling_mode=PoolingMode[case.pooling.upper()],
        learning_rate=cases.RATE,
        eps=cases.EPS,
        device=device,
        **{**settings[case.optimizer], **options},
    )
    for weights, table in zip(module.split_embedding_weights(), cases.make_tables(case), strict=True):
        weights.copy_(table)
    return module


def train(case: Case, device: torch.device) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    module = make_module(case, device)
    outputs, factor_gradients = [], []
    for step in range(cases.STEPS):
        indices, offsets, drawn = (tensor.to(device) for tensor in cases.make_batch(step))
        factors = drawn.requires_grad_() if case.weighted else None
        width = sum(case.dims[table] for table in cases.FEATURE_TABLE)
        unpooled = case.pooling == "none"
        shape = torch.Size([indices.numel(), case.dims[0]] if unpooled else [cases.BATCH, width])
        gradient = cases.make_gradient(step, torch.empty(shape)).to(device)
        with marked(case.name, device):
            out = module(indices, offsets, factors)
            out.backward(gradient)
        outputs.append(out.detach().cpu())
        factor_gradients.append(factors.grad.cpu() if factors is not None else torch.zeros(0))
    return outputs, factor_gradients, [weights.cpu() for weights in module.split_embedding_weights()]


@contextmanager
def marked(name: str, device: torch.device) -> Iterator[None]:
    """A step for the counts of an emulated NPU (docs/twin.md)."""
    if device.type != "npu":
        yield
        return
    mstx = ctypes.CDLL("libms_tools_ext.so")
    mstx.mstxRangeStartA.argtypes, mstx.mstxRangeStartA.restype = [ctypes.c_char_p, ctypes.c_void_p], ctypes.c_uint64
    mstx.mstxRangeEnd.argtypes = [ctypes.c_uint64]
    opened = mstx.mstxRangeStartA(f"step {name}".encode(), None)
    try:
        yield
    finally:
        mstx.mstxRangeEnd(opened)


def lookups_out_of_bounds(device: torch.device) -> dict[str, Any]:
    """What is said of an index outside of its table, by mode, and which rows were read."""
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode
    from torchrec.distributed import npu_embedding_kernel

    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    npu_embedding_kernel.logger.addHandler(handler)
    indices, offsets, _ = cases.make_batch(0)
    indices[0] = cases.ROWS[0]
    case = Case("sgd", "sum", False)
    warning = make_module(case, device, bounds_check_mode=BoundsCheckMode.WARNING)
    for _ in range(2):
        out = warning(indices.to(device), offsets.to(device)).detach().cpu()
    fatal = make_module(case, device, bounds_check_mode=BoundsCheckMode.FATAL)
    try:
        fatal(indices.to(device), offsets.to(device))
        torch.ops.mxrec.raise_bounds_violations()
        raised = ""
    except RuntimeError as error:
        raised = str(error)
    return {"said": said, "raised": raised, "out": out}


def main() -> None:
    device, folder = torch.device(sys.argv[1]), Path(sys.argv[2])
    for case in cases.CASES:
        torch.save(train(case, device), folder / f"{case.name}.pt")
    torch.save(lookups_out_of_bounds(device), folder / "bounds.pt")


if __name__ == "__main__":
    main()
