"""Tables whose ids and rows are the CUDA kernels' business: on a CUDA device, or on the CPU by Triton's interpreter."""

import torch
from hybrid_torchrec import HashTable
from hybrid_torchrec.backends.cuda.backend import CudaBackend
from hybrid_torchrec.backends.cuda.ids import DeviceIdTable

ON_GPU = torch.cuda.is_available()

DEVICE = torch.device("cuda" if ON_GPU else "cpu")


class DeviceTable(HashTable):
    """HashTable as it is on a CUDA device, whatever the device."""

    def __init__(self, config, device: torch.device | str = DEVICE) -> None:
        super().__init__(config, device)

    def _make_ids(self) -> DeviceIdTable:
        return DeviceIdTable(self.config, self.device)

    def _make_backend(self) -> CudaBackend:
        return CudaBackend(self.config, self._storage, self._ids.index)
