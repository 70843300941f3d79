"""Fake kernels whose result has a size that only the data knows.

``dense_to_jagged`` without total_L and the sparse permutations without permuted_lengths_sum; and those of the
optimizers' backward operators, whose learning_rate_tensor is on the CPU whatever the others are on. All others are Meta
kernels in C++ (csrc/*/meta.cpp).
"""

from collections.abc import Sequence

import torch

Permuted = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]


def _forward(dense: torch.Tensor, x_offsets: Sequence[torch.Tensor], total_L: int | None = None) -> torch.Tensor:
    if total_L is None:
        total_L = torch.library.get_ctx().new_dynamic_size()
    return torch.ops.mxrec.jagged_to_padded_dense_backward(dense, x_offsets, total_L)


def _with_offsets(
    dense: torch.Tensor, x_offsets: Sequence[torch.Tensor], total_L: int | None = None
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return _forward(dense, x_offsets, total_L), list(x_offsets)


def _with_rows(like: torch.Tensor, rows: int) -> torch.Tensor:
    return like.new_empty((rows, *like.shape[1:]))


def _permuted(
    ranks: tuple[int, ...],
    permute: torch.Tensor,
    lengths: torch.Tensor,
    values: torch.Tensor,
    weights: torch.Tensor | None,
    permuted_lengths_sum: int | None,
) -> Permuted:
    torch._check(permute.dim() == 1, lambda: f"permute must be 1-D; expected [P], got shape {tuple(permute.shape)}")
    torch._check(lengths.dim() in ranks, lambda: f"lengths must have {ranks} dimensions, got {tuple(lengths.shape)}")
    for name, index in (("permute", permute), ("lengths", lengths)):
        supported = index.dtype in (torch.int32, torch.int64)
        torch._check(supported, lambda name=name: f"{name} has an unsupported dtype; expected int32 or int64")
    rows = permuted_lengths_sum
    if rows is None:
        rows = torch.library.get_ctx().new_dynamic_size()
    return (
        _with_rows(lengths, permute.shape[0]),
        _with_rows(values, rows),
        None if weights is None else _with_rows(weights, rows),
    )


def _permute_2d(
    permute: torch.Tensor,
    lengths: torch.Tensor,
    values: torch.Tensor,
    weights: torch.Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> Permuted:
    return _permuted((1, 2), permute, lengths, values, weights, permuted_lengths_sum)


def _permute_1d(
    permute: torch.Tensor,
    lengths: torch.Tensor,
    values: torch.Tensor,
    weights: torch.Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> Permuted:
    return _permuted((1,), permute, lengths, values, weights, permuted_lengths_sum)


def _updated(grad_output: torch.Tensor, dev_weights: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
    torch._check(grad_output.dim() == 2, lambda: f"grad_output must be 2-D, got shape {tuple(grad_output.shape)}")
    return dev_weights.new_empty(0, dtype=torch.float32)


def _register_backward(space: str, optimizer: str) -> None:
    name = f"{space}::split_embedding_backward_codegen_{optimizer}_unweighted_exact_cuda"
    if not torch._C._dispatch_has_kernel_for_dispatch_key(name, "Meta"):  # fbgemm_gpu's build for CUDA has its own
        torch.library.register_fake(name, _updated)


for _space in ("fbgemm", "mxrec"):
    for _optimizer in ("sgd", "adagrad", "rowwise_adagrad", "adam"):
        _register_backward(_space, _optimizer)
torch.library.register_fake("mxrec::dense_to_jagged_forward", _forward)
torch.library.register_fake("mxrec::dense_to_jagged", _with_offsets)
torch.library.register_fake("mxrec::permute_2D_sparse_data", _permute_2d)
torch.library.register_fake("mxrec::permute_1D_sparse_data", _permute_1d)
