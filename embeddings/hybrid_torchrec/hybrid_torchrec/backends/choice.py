"""Which back end a table has."""

from hybrid_torchrec.backends import npu
from hybrid_torchrec.backends.cpu import CpuBackend
from hybrid_torchrec.backends.ids import IdTable
from hybrid_torchrec.backends.storage import RowStorage
from hybrid_torchrec.backends.torch import GenericBackend
from hybrid_torchrec.table_config import TableConfig

Backend = GenericBackend | CpuBackend


def choose(config: TableConfig, storage: RowStorage, ids: IdTable) -> Backend:
    """The fastest back end of the storage's device."""
    device = storage.weights.device
    if device.type == "cpu":
        return CpuBackend(config, storage)
    if device.type == "cuda":
        from hybrid_torchrec.backends.cuda.backend import (
            CudaBackend,  # with Triton, which only this device has for sure
        )
        from hybrid_torchrec.backends.cuda.ids import DeviceIdTable

        return CudaBackend(config, storage, ids.index if isinstance(ids, DeviceIdTable) else None)
    if npu.available(device):
        return npu.NpuBackend(config, storage)
    return GenericBackend(config, storage)
