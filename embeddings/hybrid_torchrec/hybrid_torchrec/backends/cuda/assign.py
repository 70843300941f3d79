"""A training batch of a table whose ids are all admitted, without waiting for the device."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hybrid_torchrec.backends.cuda.backend import CudaBackend
from hybrid_torchrec.backends.cuda.ids import DeviceIdTable
from hybrid_torchrec.backends.ids import IdTable


def assign(
    ids: torch.Tensor,
    known: IdTable,
    backend: object,
    step: int,
    make_room: Callable[[int, torch.Tensor], None],
    insertions: Callable[[], int],
) -> torch.Tensor:
    """Slots of ids (L,) on the device, under the table's lock; rows are made for new ones. make_room(n, slots): of n
    rows; insertions(): rows that were made until now."""
    assert isinstance(known, DeviceIdTable)
    assert isinstance(backend, CudaBackend)
    sorted_slots, rows = known.assign(ids, step, make_room)
    backend.storage.grow(known.index.capacity)
    backend.start_new(rows, sorted_slots, insertions)
    return sorted_slots.slots
