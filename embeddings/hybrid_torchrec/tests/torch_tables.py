"""Tables by PyTorch's operators alone, whatever their device has."""

import torch
from hybrid_torchrec import HashTable, TableConfig
from hybrid_torchrec.backends.torch import TorchBackend


def torch_table(config: TableConfig, device: str = "cpu") -> HashTable:
    return HashTable(config, device, backend=TorchBackend(config, torch.device(device)))
