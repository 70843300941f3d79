"""Fake kernels whose result has a size that only the data knows: ``dense_to_jagged`` without total_L.

All others are Meta kernels in C++ (csrc/jagged/meta.cpp).
"""

from collections.abc import Sequence

import torch


def _forward(dense: torch.Tensor, x_offsets: Sequence[torch.Tensor], total_L: int | None = None) -> torch.Tensor:
    if total_L is None:
        total_L = torch.library.get_ctx().new_dynamic_size()
    return torch.ops.mxrec.jagged_to_padded_dense_backward(dense, x_offsets, total_L)


def _with_offsets(
    dense: torch.Tensor, x_offsets: Sequence[torch.Tensor], total_L: int | None = None
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return _forward(dense, x_offsets, total_L), list(x_offsets)


torch.library.register_fake("mxrec::dense_to_jagged_forward", _forward)
torch.library.register_fake("mxrec::dense_to_jagged", _with_offsets)
