"""Calls that must fail; the argument names one. Prints nothing: the test reads the error."""

from __future__ import annotations

import sys

import torch
import torch_npu


def missing_function() -> None:
    """It reaches aclnnGroupNormSilu, which libopapi does not have."""
    x, ones = torch.ones(2, 4, 3, device="npu:0"), torch.ones(4, device="npu:0")
    torch_npu.npu_group_norm_silu(x, ones, ones, 2)
    torch.npu.synchronize()


def index_out_of_range() -> None:
    table = torch.ones(3, 2, device="npu:0")
    torch.nn.functional.embedding(torch.tensor([7], device="npu:0"), table)
    torch.npu.synchronize()


def foreign_generator() -> None:
    torch.empty(3, device="npu:0").normal_(generator=torch.Generator(device="cpu"))


if __name__ == "__main__":
    {f.__name__: f for f in (missing_function, index_out_of_range, foreign_generator)}[sys.argv[1]]()
