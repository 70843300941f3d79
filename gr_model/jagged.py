"""The jagged operators behind `torch.ops.fbgemm`, with the symbols of this package.

x_LD is a jagged tensor: the rows of B sequences, one after the other; offsets_B1 (B+1 entries) says where each starts.
On an NPU the operators are the Ascend C ones that `gr_ops` registers; on a CPU stock fbgemm_gpu is enough.
"""

from __future__ import annotations

import importlib
import importlib.util

import torch


class OperatorsMissing(RuntimeError):
    pass


def load_operators(device: torch.device) -> str:
    """Registers the operators for `device` and returns the name of the package that they come from."""
    if importlib.util.find_spec("fbgemm_gpu"):
        importlib.import_module("fbgemm_gpu")
    if importlib.util.find_spec("gr_ops"):
        importlib.import_module("gr_ops")
        return "gr_ops"
    # fbgemm_gpu_cpu would answer NPU tensors through torch_npu's CPU fallback: right, but not what is to be proved.
    if device.type == "npu":
        raise OperatorsMissing(
            "device npu needs the gr_ops plugin, which the npu image has: inv build-image --target npu"
        )
    if not hasattr(torch.ops.fbgemm, "jagged_to_padded_dense"):
        raise OperatorsMissing("no jagged operators: install fbgemm_gpu_cpu (CPU), fbgemm_gpu (CUDA) or gr_ops")
    return "fbgemm_gpu"


def offsets_of(lengths_B: torch.Tensor) -> torch.Tensor:
    return torch.ops.fbgemm.asynchronous_complete_cumsum(lengths_B)


def to_padded(x_LD: torch.Tensor, offsets_B1: torch.Tensor, longest: int) -> torch.Tensor:
    """[L, D] or [L] -> [B, longest, D] or [B, longest]; padding is 0."""
    return torch.ops.fbgemm.jagged_to_padded_dense(x_LD, [offsets_B1], [longest], 0.0)


def to_jagged(x_BSD: torch.Tensor, offsets_B1: torch.Tensor, total: int) -> torch.Tensor:
    return torch.ops.fbgemm.dense_to_jagged(x_BSD, [offsets_B1], total)[0]
