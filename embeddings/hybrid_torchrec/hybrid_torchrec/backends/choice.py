"""Which back end a table has."""

import torch

from hybrid_torchrec.backends import npu
from hybrid_torchrec.backends.base import Backend
from hybrid_torchrec.backends.cpu import CpuBackend
from hybrid_torchrec.backends.torch import TorchBackend
from hybrid_torchrec.table_config import TableConfig


def choose(config: TableConfig, device: torch.device, *, host_ids: bool = False) -> Backend:
    """The fastest back end of a device. host_ids: ids are looked up on the CPU whatever the device."""
    if device.type == "cpu":
        return CpuBackend(config, device)
    if device.type == "cuda":
        from hybrid_torchrec.backends.cuda.backend import CudaBackend  # with Triton, which other devices need not have

        return CudaBackend(config, device, host_ids=host_ids)
    if npu.available(device):
        return npu.NpuBackend(config, device)
    return TorchBackend(config, device)
