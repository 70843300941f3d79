"""What is known of each slot, in device memory."""

import torch

from hybrid_torchrec.cuda.words import words

(FREE_STEP,) = words("FREE_STEP")
_TYPES = {"ids": torch.int64, "shows": torch.float32, "clicks": torch.float32, "last": torch.int64,
          "versions": torch.int64, "free": torch.int64}  # fmt: skip


class Slots:
    """ids, shows, clicks, last, versions of C slots, and a list with room for all of them; (C,) each.

    last is FREE_STEP where the slot has no row.
    """

    ids: torch.Tensor
    shows: torch.Tensor
    clicks: torch.Tensor
    last: torch.Tensor
    versions: torch.Tensor
    free: torch.Tensor

    def __init__(self, capacity: int, device: torch.device) -> None:
        self._device = device
        self.capacity = 0
        self.grow(capacity)

    def grow(self, capacity: int) -> None:
        """Every new tensor is made before an old one is given up."""
        grown = {}
        for name, dtype in _TYPES.items():
            fresh = FREE_STEP if name == "last" else 0
            grown[name] = torch.full((capacity,), fresh, dtype=dtype, device=self._device)
            if self.capacity:
                grown[name][: self.capacity] = getattr(self, name)
        for name, tensor in grown.items():
            setattr(self, name, tensor)
        self.capacity = capacity

    def tensors(self) -> list[torch.Tensor]:
        return [self.ids, self.shows, self.clicks, self.last, self.versions, self.free]

    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors())
