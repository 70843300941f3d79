"""Floating point operations of a training step, and what the device could do in that time.

Counted as in the HSTU paper's and NVIDIA's reports: products of matrices only, a multiplication and an addition each,
causal attention as half of its square, the backward pass as twice the forward.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from gr_model.config import Config

# Dense peak in TFLOP/s, from the makers' data sheets: bf16, fp32 (of CUDA cores or vector units; tf32 is off).
PEAKS = {
    "H100": (989.0, 67.0), "H200": (989.0, 67.0), "A100": (312.0, 19.5), "A800": (312.0, 19.5),
    "910B": (376.0, 94.0), "Ascend910": (376.0, 94.0),
}  # fmt: skip


def step_flops(config: Config, lengths: Sequence[int]) -> float:
    """Forward and backward of one step over sequences of these lengths (in tokens)."""
    model, total = config.model, float(sum(lengths))
    values, keys = model.heads * model.value_dim, model.heads * model.qk_dim
    projections = 2 * total * model.dim * (2 * values + 2 * keys) + 2 * total * values * model.dim
    attention = 2 * (values + keys) * sum(float(n) ** 2 for n in lengths) / 2
    shown = total / (2 if model.interleave else 1)
    if config.task == "retrieval":
        head = 2 * shown * (1 + config.retrieval.negatives + config.retrieval.in_batch) * model.dim
    else:
        head = 2 * shown * model.dim * len(config.ranking.tasks)
    return 3 * (model.blocks * (projections + attention) + head)


def peak(device: torch.device, dtype: torch.dtype = torch.float32) -> tuple[float, str]:
    """FLOP/s and where the number is from: the data sheet, or a product of matrices measured here."""
    if device.type != "cpu":
        name = getattr(torch, device.type).get_device_name(device)
        for key, (bf16, fp32) in PEAKS.items():
            if key in name and device.type == "cuda":
                return (bf16 if dtype == torch.bfloat16 else fp32) * 1e12, f"data sheet of {name}"
    return measured(device, dtype), "product of two 1024 x 1024 matrices, measured at the start"


def measured(device: torch.device, dtype: torch.dtype, size: int = 1024) -> float:
    a = torch.randn(size, size, device=device).to(dtype)
    best = float("inf")
    for _ in range(4):
        begin = time.perf_counter()
        (a @ a).sum().item()
        best = min(best, time.perf_counter() - begin)
    return 2.0 * size**3 / best
