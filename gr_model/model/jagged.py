"""The jagged operators behind `torch.ops.fbgemm`, with the symbols of this package.

x_LD is a jagged tensor: the rows of B sequences, one after the other; offsets_B1 (B+1 entries) says where each starts.
On an NPU the operators are the Ascend C ones that `gr_ops` registers; on a CPU stock fbgemm_gpu is enough, on CUDA its
build for CUDA. Where there are none for the device (a bare PyTorch; `gr_ops` on CUDA, which has attention alone) plain
PyTorch stands in, with the same results.
"""

from __future__ import annotations

import importlib
import importlib.util

import torch
import torch.nn.functional as F

from gr_model.common import in_image
from gr_model.common.errors import GrModelError


class OperatorsMissing(GrModelError, RuntimeError):
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
            "device npu needs the gr_ops plugin, which the npu image has: "
            + in_image.command("build-image --target npu")
        )
    return "fbgemm_gpu" if registered(device) else "torch"


def registered(device: torch.device) -> bool:
    name = "jagged_to_padded_dense"
    if not hasattr(torch.ops.fbgemm, name):
        return False
    return device.type != "cuda" or torch._C._dispatch_has_kernel_for_dispatch_key(f"fbgemm::{name}", "CUDA")


def offsets_of(lengths_B: torch.Tensor) -> torch.Tensor:
    if not registered(lengths_B.device):
        return F.pad(lengths_B.cumsum(0), (1, 0))
    return torch.ops.fbgemm.asynchronous_complete_cumsum(lengths_B)


def to_padded(x_LD: torch.Tensor, offsets_B1: torch.Tensor, longest: int) -> torch.Tensor:
    """[L, D] or [L] -> [B, longest, D] or [B, longest]; padding is 0."""
    if not registered(x_LD.device):
        if len(x_LD) == (len(offsets_B1) - 1) * longest:  # no padding
            return x_LD.unflatten(0, (len(offsets_B1) - 1, longest))
        at_BS = offsets_B1[:-1, None] + torch.arange(longest, device=x_LD.device)
        inside_BS = at_BS < offsets_B1[1:, None]
        if not len(x_LD):
            return x_LD.new_zeros(*at_BS.shape, *x_LD.shape[1:])
        x_BSD = x_LD.index_select(0, at_BS.clamp(max=len(x_LD) - 1).flatten()).unflatten(0, at_BS.shape)
        return torch.where(inside_BS.view(*at_BS.shape, *[1] * (x_LD.dim() - 1)), x_BSD, 0)
    return torch.ops.fbgemm.jagged_to_padded_dense(x_LD, [offsets_B1], [longest], 0.0)


def to_jagged(x_BSD: torch.Tensor, offsets_B1: torch.Tensor, total: int) -> torch.Tensor:
    """The inverse: [B, S, D] -> [L, D]."""
    if not registered(x_BSD.device):
        rows, longest = x_BSD.shape[:2]
        if total == rows * longest:
            return x_BSD.flatten(0, 1)
        sequence_L = torch.repeat_interleave(
            torch.arange(rows, device=x_BSD.device), offsets_B1.diff(), output_size=total
        )
        at_L = torch.arange(total, device=x_BSD.device) - offsets_B1[sequence_L] + sequence_L * longest
        return x_BSD.flatten(0, 1).index_select(0, at_L)
    return torch.ops.fbgemm.dense_to_jagged(x_BSD, [offsets_B1], total)[0]
