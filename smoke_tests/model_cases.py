"""Cases of the operators of a model: lookup, permutation, gather, bounds and attention, with their results by NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from smoke_tests.checks.jagged_cases import EXACT, Comparison

FP32 = 1e-5


def comparisons(device: Any) -> Iterator[Comparison]:
    """The documents' worked examples; attention also at random lengths."""
    yield from _sparse(device)
    yield from _attention(device)


def _sparse(device: Any) -> Iterator[Comparison]:
    import torch

    def put(values: Any, dtype: Any = None) -> Any:
        return torch.tensor(values, dtype=dtype, device=device)

    def lookup() -> Any:
        empty = put([], torch.float32)
        int32 = torch.int32
        return torch.ops.fbgemm.split_embedding_codegen_forward_unweighted_cuda(
            put(np.arange(40) / 10, torch.float32),
            empty,
            empty.view(0, 0),
            put([0], int32),
            put([0]),
            put([0, 4], int32),
            4,
            4,
            put([1, 3, 5, 1, 9]),
            put([0, 3, 5]),
            0,
            put([], int32),
            put([], int32),
            0,
            False,
        )

    def repaired() -> Any:
        indices, warning = put([0, 5, 2, 3, 2]), put([0])
        torch.ops.fbgemm.bounds_check_indices(put([5, 3]), indices, put([0, 2, 3, 4, 5]), 2, warning)
        return indices

    def permuted() -> Any:
        lengths, values = put([2, 3, 1, 4]), put(np.arange(10, 101, 10))
        return torch.ops.fbgemm.permute_2D_sparse_data(put([3, 1, 0, 2]), lengths, values, None, None)[1]

    sums = np.array([[3.6, 3.9, 4.2, 4.5], [4.0, 4.2, 4.4, 4.6]], np.float32)
    yield "embedding lookup, example", lookup, sums, FP32
    yield "bounds check, example", repaired, np.array([0, 0, 2, 0, 2]), EXACT
    yield "permutation, example", permuted, np.array([70, 80, 90, 100, 30, 40, 50, 10, 20, 60]), EXACT
    gathered = np.array([3.5, 1.5, 3.5, 2.5], np.float32)
    yield (
        "gather, example",
        lambda: torch.ops.mxrec.gather_for_rank1(put([1.5, 2.5, 3.5]), put([2, 0, 2, 1])),
        gathered,
        EXACT,
    )


def _attention(device: Any) -> Iterator[Comparison]:
    import torch

    rng = np.random.default_rng(0)
    for heads, dim, lengths in ((1, 50, [33, 1, 0, 64]), (2, 8, [5, 17])):
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        q, k, v = (rng.uniform(-1, 1, (offsets[-1], heads, dim)).astype(np.float32) for _ in range(3))

        def compute(q: Any = q, k: Any = k, v: Any = v, offsets: Any = offsets) -> Any:
            on_device = [torch.from_numpy(array).to(device) for array in (q, k, v)]
            return torch.ops.mxrec.hstu_dense(*on_device, None, None, 0, 64, 0.0, "jagged", offsets.tolist())

        yield f"attention, {heads} heads of {dim}", compute, attention(q, k, v, offsets, 1 / 64), FP32


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, offsets: np.ndarray, scale: float) -> np.ndarray:
    """Causal SiLU attention in float64, sequence by sequence."""
    out = np.zeros(v.shape)
    for start, end in zip(offsets[:-1], offsets[1:], strict=True):
        scores = np.einsum("ihd,jhd->hij", q[start:end].astype(np.float64), k[start:end])
        weights = np.tril(scores / (1 + np.exp(-scores))) * scale
        out[start:end] = np.einsum("hij,jhd->ihd", weights, v[start:end])
    return out.astype(np.float32)
