"""Tables whose ids and rows are the CUDA kernels' business: on a CUDA device, or on the CPU by Triton's interpreter."""

import torch
from hybrid_torchrec import HashTable, TableConfig
from hybrid_torchrec.backends.cuda.backend import CudaBackend

ON_GPU = torch.cuda.is_available()

DEVICE = torch.device("cuda" if ON_GPU else "cpu")


class DeviceTable(HashTable):
    """HashTable as it is on a CUDA device, whatever the device."""

    def __init__(self, config: TableConfig, device: torch.device | str = DEVICE) -> None:
        super().__init__(config, device, backend=CudaBackend(config, torch.device(device)))
