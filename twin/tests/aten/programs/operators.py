"""Each operator of the table on npu:0 and on the CPU, forward and, where it has one, backward.

Prints {name: "" or what went wrong}. `operators.py NAME` runs one operator.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F  # noqa: N812

ROWS = torch.tensor([0, 2, 4])


def edit(tensor: torch.Tensor, change: Callable[[torch.Tensor], object]) -> torch.Tensor:
    """A copy of `tensor` that `change` has edited in place."""
    copy = tensor.clone()
    change(copy)
    return copy


def on(tensor: torch.Tensor, *values: float, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.tensor(values, device=tensor.device, dtype=dtype)


def rows(tensor: torch.Tensor) -> torch.Tensor:
    return ROWS.to(tensor.device)


# name -> function of one float32 [5, 7] tensor
OPERATORS: dict[str, Callable[[torch.Tensor], torch.Tensor | Sequence[torch.Tensor]]] = {
    # element-wise
    "add": lambda t: t + t * 2,
    "add_scalar": lambda t: t + 1,
    "add_broadcast": lambda t: t + t[0],
    "add_alpha": lambda t: torch.add(t, t, alpha=3),
    "rsub": lambda t: 1 - t,
    "div": lambda t: t / (t.abs() + 1),
    "div_floor": lambda t: torch.div(t, 0.3, rounding_mode="floor"),
    "div_trunc": lambda t: torch.div(t, 0.3, rounding_mode="trunc"),
    "remainder": lambda t: torch.remainder(t, 0.7),
    "pow": lambda t: t**2,
    "pow_scalar_base": lambda t: 2**t,
    "exp_log": lambda t: torch.log(torch.exp(t) + 1),
    "rsqrt": lambda t: torch.rsqrt(t.abs() + 1),
    "clamp": lambda t: t.clamp(-0.5, 0.5),
    "clamp_min": lambda t: t.clamp(min=0.1),
    "where": lambda t: torch.where(t > 0, t, torch.zeros_like(t)),
    "where_scalar": lambda t: torch.where(t > 0, t, 0.0),
    "maximum": lambda t: torch.maximum(t, -t),
    "lerp": lambda t: torch.lerp(t, t * 2, 0.3),
    "addcmul": lambda t: torch.addcmul(t, t, t, value=0.5),
    "addcdiv": lambda t: torch.addcdiv(t, t, t.abs() + 1, value=0.5),
    "integer": lambda t: t.int() + 1,
    "integer_division": lambda t: (t * 10).long() // 3,
    "bitwise": lambda t: (t > 0) & (t < 1) | ~(t > -1),
    "compare": lambda t: t.ge(0.1),
    "isnan": lambda t: torch.isnan(edit(t, lambda c: c[0].fill_(float("nan")))),
    "nan_to_num": lambda t: torch.nan_to_num(t.detach() / torch.zeros_like(t), 1.0, 2.0, 3.0),
    "half": lambda t: (t.half() * 2).float(),
    "bfloat16": lambda t: t.bfloat16().sum(1).float(),
    # activations
    "silu": F.silu,
    "gelu": F.gelu,
    "relu": F.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softplus": F.softplus,
    "leaky_relu": F.leaky_relu,
    "logsigmoid": F.logsigmoid,
    "softmax": lambda t: t.softmax(-1),
    "log_softmax": lambda t: t.log_softmax(0),
    # reductions and scans
    "sum": lambda t: t.sum(),
    "sum_dim": lambda t: t.sum(1, keepdim=True),
    "mean": lambda t: t.mean((0, 1)),
    "norm": lambda t: t.norm(dim=1),
    "var": lambda t: t.var(1),
    "std": lambda t: t.std(0),
    "max": lambda t: t.max(1),
    "amax": lambda t: t.amax(0),
    "argmax": lambda t: t.argmax(1),
    "any": lambda t: (t > 2).any(),
    "all": lambda t: (t > -9).all(1),
    "prod": lambda t: t.prod(1),
    "cumsum": lambda t: t.cumsum(0),
    "cumsum_int": lambda t: (t * 10).int().cumsum(0),
    "logsumexp": lambda t: t.logsumexp(1),
    # matrices
    "matmul": lambda t: t @ t.t(),
    "matmul_vector": lambda t: t @ t[0],
    "bmm": lambda t: torch.bmm(t[None], t.t()[None]),
    "addmm": lambda t: torch.addmm(t[:, :5], t, t.t(), beta=0.5, alpha=2),
    "einsum": lambda t: torch.einsum("ij,kj->ik", t, t),
    "matmul_half": lambda t: (t.half() @ t.half().t()).float(),
    # moving elements
    "cat": lambda t: torch.cat([t, t * 2], 1),
    "stack": lambda t: torch.stack([t, t * 2], 1),
    "chunk": lambda t: [c.clone() for c in t.chunk(2, 1)],
    "split": lambda t: [c * 2 for c in torch.split(t, [1, 4])],
    "pad": lambda t: F.pad(t, (1, 1), value=2.0),
    "flip": lambda t: t.flip(0),
    "roll": lambda t: t.roll(1, 0),
    "repeat": lambda t: t.repeat(2, 1),
    "expand": lambda t: t[:1].expand(3, 7).contiguous(),
    "tril": lambda t: torch.tril(t, -1),
    "triu": lambda t: torch.triu(t),
    "transpose_slice": lambda t: t.t()[::2].contiguous(),
    "copy_transposed": lambda t: torch.empty(7, 5, device=t.device).copy_(t.t()),
    "repeat_interleave": lambda t: torch.repeat_interleave(t, on(t, 1, 0, 2, 3, 1, dtype=torch.long), 0),
    "arange": lambda t: torch.arange(2, 20, 3, device=t.device),
    "full": lambda t: torch.full((5, 7), 3.0, device=t.device) + torch.ones_like(t),
    "linspace": lambda t: torch.linspace(0, 1, 5, device=t.device),
    "one_hot": lambda t: F.one_hot(rows(t), 6),
    "meshgrid": lambda t: torch.meshgrid(t[0], t[1], indexing="ij"),
    # indexing
    "gather": lambda t: torch.gather(t, 1, (t > 0).long()),
    "index_select": lambda t: t.index_select(0, rows(t)),
    "index_rows": lambda t: t[rows(t)],
    "index_columns": lambda t: t[:, rows(t)],
    "index_mask": lambda t: t[t > 0],
    "index_put": lambda t: t.clone().index_put_((rows(t),), t[:3]),
    "index_put_accumulate": lambda t: t.clone().index_put_((rows(t) * 0,), t[:3], accumulate=True),
    "index_add": lambda t: t.index_add(0, rows(t), t[:3], alpha=2),
    "scatter": lambda t: t.scatter(1, (t > 0).long(), 9.0),
    "scatter_add": lambda t: torch.zeros_like(t).scatter_add(0, (t > 0).long(), t),
    "masked_fill": lambda t: t.masked_fill(t > 0, 0.0),
    "embedding": lambda t: F.embedding(rows(t), t),
    "embedding_padding": lambda t: F.embedding(rows(t), t, padding_idx=2),
    "nonzero": lambda t: torch.nonzero(t > 0),
    "unique": lambda t: torch.unique((t * 2).long(), return_inverse=True, return_counts=True),
    # sorting
    "sort": lambda t: torch.sort(t, 1),
    "sort_descending": lambda t: torch.sort(t, 0, descending=True),
    "argsort": lambda t: torch.argsort(t, 1),
    "topk": lambda t: torch.topk(t, 3),
    "searchsorted": lambda t: torch.searchsorted(torch.arange(5.0, device=t.device), t),
    "bincount": lambda t: torch.bincount(rows(t), minlength=6),
    # norms and losses
    "layer_norm": lambda t: F.layer_norm(t, (7,), t[0], t[1]),
    "layer_norm_plain": lambda t: F.layer_norm(t, (7,)),
    "rms_norm": lambda t: F.rms_norm(t, (7,)),
    "bce_with_logits": lambda t: F.binary_cross_entropy_with_logits(t, (t > 0).float()),
    "bce_with_logits_weighted": lambda t: F.binary_cross_entropy_with_logits(
        t, (t > 0).float(), weight=t.detach().abs(), pos_weight=on(t, *range(1, 8), dtype=torch.float32)
    ),
    "bce": lambda t: F.binary_cross_entropy(torch.sigmoid(t), (t > 0).float()),
    "mse": lambda t: F.mse_loss(t, torch.ones_like(t)),
    "l1": lambda t: F.l1_loss(t, torch.ones_like(t), reduction="sum"),
    "smooth_l1": lambda t: F.smooth_l1_loss(t, torch.ones_like(t)),
    "cross_entropy": lambda t: F.cross_entropy(t, on(t, 0, 3, 6, 1, 2, dtype=torch.long)),
    "cross_entropy_ignore": lambda t: F.cross_entropy(t, on(t, 0, -100, 6, 1, 2, dtype=torch.long)),
    # lists
    "foreach_add": lambda t: torch._foreach_add([t, t], [t, t * 2], alpha=2),
    "foreach_mul_scalar": lambda t: torch._foreach_mul([t, t[0]], 3.0),
    "foreach_addcdiv": lambda t: torch._foreach_addcdiv([t, t], [t, t], [t.abs() + 1] * 2, [0.5, 2.0]),
    "foreach_norm": lambda t: torch._foreach_norm([t, t[0]]),
    # shapes without elements
    "empty_add": lambda t: t[:0] + t[:0],
    "empty_sum": lambda t: t[:0].sum(0),
    "empty_matmul": lambda t: t[:0] @ t.t(),
    "empty_matmul_inner": lambda t: t[:, :0] @ t[:, :0].t(),
    "empty_cat": lambda t: torch.cat([t[:0], t]),
    "empty_index": lambda t: t[rows(t)[:0]],
    "empty_nonzero": lambda t: torch.nonzero(t > 99),
    # in place, views and out=
    "slice_assign": lambda t: edit(t, lambda c: c.__setitem__((slice(1, 3), slice(None, None, 2)), 0.5)),
    "row_add": lambda t: edit(t, lambda c: c[1].add_(1)),
    "column_mul": lambda t: edit(t, lambda c: c[:, 2].mul_(3)),
    "transposed_fill": lambda t: edit(t, lambda c: c.t()[3].fill_(4)),
    "diagonal_zero": lambda t: edit(t, lambda c: c.diagonal().zero_()),
    "out_resize": lambda t: torch.add(t.detach(), t.detach(), out=torch.empty(0, device=t.device)),
    "out_strided": lambda t: torch.mul(t.detach(), t.detach(), out=torch.empty(7, 5, device=t.device).t()),
}
# What torch_npu v2.6.0.post3 sends to functions that libopapi does not have; the override has them. F.gelu is there
# because torch_npu drops `approximate` on its way to aclnnGelu.
OVERRIDE_ONLY: dict[str, Callable[[torch.Tensor], torch.Tensor | Sequence[torch.Tensor]]] = {
    "scaled_dot_product_attention": lambda t: F.scaled_dot_product_attention(*[t[None, None]] * 3),
    "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"),
    "max_pool1d": lambda t: F.max_pool1d(t[None], 2),
    "conv1d": lambda t: F.conv1d(t[None], torch.ones(2, 5, 3, device=t.device)),
    "rfft": lambda t: torch.view_as_real(torch.fft.rfft(t)),
    "embedding_bag": lambda t: F.embedding_bag(torch.arange(4, device=t.device), t, on(t, 0, 2, dtype=torch.long)),
    "bucketize": lambda t: torch.bucketize(t, torch.arange(5.0, device=t.device)),
    "svd": lambda t: torch.linalg.svdvals(t),
}


def as_list(result: torch.Tensor | Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def outcome(function: Callable[..., object], device: str, data: torch.Tensor) -> list[torch.Tensor]:
    """The function's results and, where they are differentiable, the gradient of their weighted sum."""
    leaf = data.clone().to(device).detach().requires_grad_()
    results = as_list(function(leaf))
    for result in results:
        assert result.device.type == torch.device(device).type, f"a result lies on {result.device}"
    smooth = [r for r in results if r.requires_grad and r.numel() > 0]
    if smooth:
        weights = [torch.arange(1, r.numel() + 1, dtype=torch.float32).view(r.shape).to(r.device) for r in smooth]
        sum((r * w).sum() for r, w in zip(smooth, weights)).backward()
        assert leaf.grad is not None
        results.append(leaf.grad)
    return [r.detach().cpu() for r in results]


def compare(function: Callable[..., object], data: torch.Tensor) -> str:
    try:
        actual, expected = outcome(function, "npu:0", data), outcome(function, "cpu", data)
        assert len(actual) == len(expected)
        for left, right in zip(actual, expected):
            torch.testing.assert_close(left, right)
    except Exception as error:  # the table goes on; the test reports each operator
        return f"{type(error).__name__}: {error}"[:600]
    return ""


def main() -> None:
    table = {**OPERATORS, **OVERRIDE_ONLY}
    names = sys.argv[1:] or list(table)
    torch.manual_seed(0)
    data = torch.randn(5, 7)
    print(json.dumps({name: compare(table[name], data) for name in names}))


if __name__ == "__main__":
    main()
