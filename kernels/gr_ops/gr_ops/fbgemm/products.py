"""Sums, products and softmax of jagged values: through padded tensors, with our operators between the layouts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gr_ops.fbgemm import checks
from gr_ops.fbgemm.registry import composite

Offsets = Sequence[Tensor]


def padded(values: Tensor, offsets: Tensor, longest: int, padding: float = 0.0) -> Tensor:
    result: Tensor = torch.ops.mxrec.jagged_to_padded_dense(values, [offsets], [longest], padding)
    return result


def jagged(dense: Tensor, offsets: Sequence[Tensor], total: int) -> Tensor:
    """Rows of `dense`; zeros where a row is longer than it."""
    result: Tensor = torch.ops.mxrec.dense_to_jagged(dense, list(offsets), total)[0]
    return result


@composite("jagged_dense_bmm_forward", differentiable=True)
def jagged_dense_bmm_forward(x_values: Tensor, x_offsets: Tensor, y: Tensor, max_L: int) -> Tensor:
    """[L, K] x [B, K, N] -> [L, N]: the rows of each bag times its matrix."""
    op = "jagged_dense_bmm"
    _check_bags(op, x_offsets, x_values=x_values)
    checks.rank(op, "y", y, 3, "[B, K, N]")
    checks.rows(op, "y", y, x_offsets.numel() - 1, "x_offsets and one less")
    checks.require(
        y.size(1) == x_values.size(1), f"{op}: y must be [B, {x_values.size(1)}, N], got shape {tuple(y.shape)}"
    )
    return jagged(torch.bmm(padded(x_values, x_offsets, max_L), y), [x_offsets], x_values.size(0))


@composite("jagged_dense_bmm", differentiable=True)
def jagged_dense_bmm(x_values: Tensor, x_offsets: Tensor, y: Tensor, max_L: int) -> tuple[Tensor, Tensor]:
    return jagged_dense_bmm_forward(x_values, x_offsets, y, max_L), x_offsets


@composite("jagged_jagged_bmm", "jagged_jagged_bmm_forward", differentiable=True)
def jagged_jagged_bmm(x_values: Tensor, y_values: Tensor, x_offsets: Tensor, max_L: int) -> Tensor:
    """[L, M] and [L, N] -> [B, M, N]: per bag the product over its rows."""
    op = "jagged_jagged_bmm"
    _check_bags(op, x_offsets, x_values=x_values, y_values=y_values)
    checks.rows(op, "y_values", y_values, x_values.size(0), "x_values")
    return torch.bmm(padded(x_values, x_offsets, max_L).transpose(1, 2), padded(y_values, x_offsets, max_L))


@composite("jagged_softmax_forward", differentiable=True)
def jagged_softmax_forward(values: Tensor, x_offsets: Tensor, max_L: int) -> Tensor:
    """[L, D]: softmax over the rows of each bag, per column; zeros behind max_L rows."""
    _check_bags("jagged_softmax", x_offsets, values=values)
    dense = padded(values, x_offsets, max_L, float("-inf"))  # bags without rows give NaN, which nothing reads
    return jagged(dense.softmax(dim=1), [x_offsets], values.size(0))


@composite("jagged_softmax", differentiable=True)
def jagged_softmax(values: Tensor, x_offsets: Tensor, max_L: int) -> tuple[Tensor, Tensor]:
    return jagged_softmax_forward(values, x_offsets, max_L), x_offsets


@composite("jagged_softmax_backward")
def jagged_softmax_backward(grad_output: Tensor, output: Tensor, x_offsets: Tensor, max_L: int) -> Tensor:
    _check_bags("jagged_softmax_backward", x_offsets, grad_output=grad_output, output=output)
    grads, outputs = padded(grad_output, x_offsets, max_L), padded(output, x_offsets, max_L)
    return jagged(outputs * (grads - (grads * outputs).sum(dim=1, keepdim=True)), [x_offsets], output.size(0))


def _check_bags(op: str, offsets: Tensor, **matrices: Tensor) -> None:
    checks.index_vector(op, x_offsets=offsets)
    checks.require(offsets.numel() > 0, f"{op}: x_offsets must have at least one entry, got none")
    for name, values in matrices.items():
        checks.rank(op, name, values, 2, "[L, D]")
        checks.same_device(op, name, values, offsets)


@composite("jagged_dense_elementwise_add", differentiable=True)
def jagged_dense_elementwise_add(x_values: Tensor, x_offsets: Offsets, y: Tensor) -> Tensor:
    """[B, S_1, ..., D]: y plus the values where there are some."""
    dense: Tensor = torch.ops.mxrec.jagged_to_padded_dense(x_values, list(x_offsets), list(y.shape[1:-1]))
    return dense + y


@composite(
    "jagged_dense_elementwise_add_jagged_output",
    "jagged_dense_dense_elementwise_add_jagged_output",
    differentiable=True,
)
def jagged_dense_elementwise_add_jagged_output(
    x_values: Tensor, x_offsets: Offsets, *dense: Tensor, **named: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """[L, D]: the values plus the cells of one or two dense tensors that they have."""
    return _sum(x_values, x_offsets, (*dense, *named.values())), list(x_offsets)


@composite("jagged_dense_dense_elementwise_add_jagged_output_forward", differentiable=True)
def jagged_dense_dense_elementwise_add_jagged_output_forward(
    x_values: Tensor, x_offsets: Offsets, y_0: Tensor, y_1: Tensor
) -> Tensor:
    return _sum(x_values, x_offsets, (y_0, y_1))


def _sum(x_values: Tensor, x_offsets: Offsets, dense: Sequence[Tensor]) -> Tensor:
    for tensor in dense:
        x_values = x_values + jagged(tensor, x_offsets, x_values.size(0))
    return x_values


@composite("jagged_dense_elementwise_mul_forward", differentiable=True)
def jagged_dense_elementwise_mul_forward(x_values: Tensor, x_offsets: Offsets, y: Tensor) -> Tensor:
    """[L, D]: the values times the cells that they have; zeros where y ends before."""
    return x_values * jagged(y, x_offsets, x_values.size(0))


@composite("jagged_dense_elementwise_mul", differentiable=True)
def jagged_dense_elementwise_mul(x_values: Tensor, x_offsets: Offsets, y: Tensor) -> tuple[Tensor, list[Tensor]]:
    return jagged_dense_elementwise_mul_forward(x_values, x_offsets, y), list(x_offsets)


@composite("jagged_dense_elementwise_mul_backward")
def jagged_dense_elementwise_mul_backward(
    grad_output: Tensor, x_offsets: Offsets, y: Tensor, x_values: Tensor
) -> tuple[Tensor, Tensor]:
    grad_y = torch.ops.mxrec.jagged_to_padded_dense(grad_output * x_values, list(x_offsets), list(y.shape[1:-1]))
    return grad_output * jagged(y, x_offsets, x_values.size(0)), grad_y


@composite("batched_dense_vec_jagged_2d_mul", "batched_dense_vec_jagged_2d_mul_forward", differentiable=True)
def batched_dense_vec_jagged_2d_mul(v: Tensor, a_values: Tensor, a_offsets: Tensor) -> Tensor:
    """[B * H, S] x [L, H * D] -> [B * H, D]: per bag and head, a vector times the bag's rows."""
    op = "batched_dense_vec_jagged_2d_mul"
    _check_bags(op, a_offsets, a_values=a_values)
    checks.rank(op, "v", v, 2, "[B * H, S]")
    bags = a_offsets.numel() - 1
    if bags == 0 or v.size(0) == 0:
        return v.new_zeros(v.size(0), a_values.size(1))
    heads = v.size(0) // bags
    checks.require(
        heads * bags == v.size(0) and a_values.size(1) % heads == 0,
        f"{op}: v must have H rows for each of {bags} bags and a_values H * D columns, got {tuple(v.shape)} and "
        f"{tuple(a_values.shape)}",
    )
    rows = padded(a_values, a_offsets, v.size(1)).unflatten(2, (heads, -1)).transpose(1, 2)
    return torch.bmm(v.unsqueeze(1), rows.flatten(0, 1)).squeeze(1)


@composite("segment_sum_csr", differentiable=True)
def segment_sum_csr(batch_size: int, csr_seg: Tensor, values: Tensor) -> Tensor:
    """[S]: the sums of values[csr_seg[s] * batch_size : csr_seg[s + 1] * batch_size]."""
    checks.index_vector("segment_sum_csr", csr_seg=csr_seg)
    checks.rank("segment_sum_csr", "values", values, 1, "[L]")
    checks.require(csr_seg.numel() > 0, "segment_sum_csr: csr_seg must have at least one entry, got none")
    segments = csr_seg.numel() - 1
    positions = checks.counting(values.numel(), csr_seg)
    # what stands before the first segment or behind the last one goes to a row of its own
    segment = torch.searchsorted(csr_seg * batch_size, positions, right=True)
    return values.new_zeros(segments + 2).index_add(0, segment, values)[1:-1].clone()
