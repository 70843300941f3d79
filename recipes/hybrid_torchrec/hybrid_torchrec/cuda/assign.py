"""A training batch of a table whose ids are all admitted, without waiting for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from hybrid_torchrec.cuda.backend import CudaBackend
from hybrid_torchrec.cuda.ids import DeviceIdTable

if TYPE_CHECKING:
    from hybrid_torchrec.table.hash_table import HashTable


def assign(table: HashTable, ids: torch.Tensor) -> torch.Tensor:
    """Slots of ids (L,) on the device, under the table's lock; rows are made for new ones."""
    known, backend = table._ids, table._backend
    assert isinstance(known, DeviceIdTable)
    assert isinstance(backend, CudaBackend)
    order, rows = known.assign(ids, table.step, table._make_room)
    table._storage.grow(known.index.capacity)
    backend.start_new(rows, order, lambda: table.insertions)
    return order.slots
