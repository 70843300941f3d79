"""Floating point operations of a training step, and what the device could do in that time.

Counted as in the HSTU paper's and NVIDIA's reports: products of matrices only, a multiplication and an addition each,
causal attention as half of its square, the backward pass as twice the forward.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from gr_model.config import Config, ModelConfig

# Dense peak in TFLOP/s, from the makers' data sheets: bf16, fp32 (of CUDA cores or vector units), tf32.
PEAKS = {
    "H100": (989.0, 67.0, 494.5),
    "H200": (989.0, 67.0, 494.5),
    "A100": (312.0, 19.5, 156.0),
    "A800": (312.0, 19.5, 156.0),
    "910B": (376.0, 94.0, 94.0),
    "Ascend910": (376.0, 94.0, 94.0),
}


def step_flops(config: Config, lengths: Sequence[int]) -> float:
    """Forward and backward of one step over sequences of these lengths (in tokens)."""
    model, stride = config.model, 2 if config.model.interleave else 1
    if model.backbone == "dcn":
        return 3 * sum((n - len(model.contextual)) // stride for n in lengths) * _dcn_item(config)
    layer = _sasrec_layer if model.backbone == "sasrec" else _hstu_layer
    if config.task == "retrieval":
        head = 2.0 * (1 + config.retrieval.negatives + config.retrieval.in_batch) * model.dim
    else:
        head = _ranking_head(config, model.dim)
    return 3 * (model.blocks * layer(model, lengths) + sum(lengths) / stride * head)


def _hstu_layer(model: ModelConfig, lengths: Sequence[int]) -> float:
    total, values, keys = float(sum(lengths)), model.heads * model.value_dim, model.heads * model.qk_dim
    read = values * (3 if model.concat_ua else 1)  # by the last product
    projections = 2 * total * model.dim * (2 * values + 2 * keys) + 2 * total * read * model.dim
    return projections + _causal(values + keys, lengths)


def _sasrec_layer(model: ModelConfig, lengths: Sequence[int]) -> float:
    """Without u, and with a feed-forward network of two square matrices."""
    total, values, keys = float(sum(lengths)), model.heads * model.value_dim, model.heads * model.qk_dim
    projections = 2 * total * model.dim * (values + 2 * keys) + 2 * total * values * model.dim
    return projections + 2 * 2 * total * model.dim**2 + _causal(values + keys, lengths)


def _causal(width: int, lengths: Sequence[int]) -> float:
    return 2 * width * sum(float(n) ** 2 for n in lengths) / 2


def _dcn_item(config: Config) -> float:
    """Forward of one shown item: crosses of low rank, deep layers, head."""
    blocks, hidden = config.model.blocks, config.ranking.hidden
    width = config.model.dim * (3 + len(config.model.contextual))
    cross = 2 * 2 * blocks * width * config.ranking.rank
    deep = 2 * (width * hidden + (blocks - 1) * hidden**2)
    return cross + deep + _ranking_head(config, width + hidden)


def _ranking_head(config: Config, dim: int) -> float:
    """Forward of one item."""
    ranking, tasks = config.ranking, len(config.ranking.tasks)
    if ranking.head == "linear":
        return 2.0 * dim * tasks
    if ranking.head == "mlp":
        return 2.0 * ranking.hidden * (dim + tasks)
    of_gates, of_towers = tasks * ranking.experts * (dim + ranking.hidden), tasks * ranking.hidden
    return 2.0 * (dim * ranking.experts * ranking.hidden + of_gates + of_towers)


def peak(device: torch.device, dtype: torch.dtype = torch.float32, tf32: bool = False) -> tuple[float, str]:
    """FLOP/s and where the number is from: the data sheet, or a product of matrices measured here. `tf32`: of float32,
    where a GPU multiplies it so."""
    if device.type != "cpu":
        name = getattr(torch, device.type).get_device_name(device)
        for key, (of_bf16, of_fp32, of_tf32) in PEAKS.items():
            if key in name and device.type == "cuda":
                rate = of_bf16 if dtype == torch.bfloat16 else of_tf32 if tf32 else of_fp32
                return rate * 1e12, f"data sheet of {name}"
    return measured(device, dtype), "product of two 1024 x 1024 matrices, measured at the start"


def measured(device: torch.device, dtype: torch.dtype, size: int = 1024) -> float:
    a = torch.randn(size, size, device=device).to(dtype)
    best = float("inf")
    for _ in range(4):
        begin = time.perf_counter()
        (a @ a).sum().item()
        best = min(best, time.perf_counter() - begin)
    return 2.0 * size**3 / best
