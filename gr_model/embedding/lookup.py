"""A table of items, and how it is asked: a lookup of several sets of ids is answered with rows_UD and, for each set,
where in rows_UD its ids are. So a step moves each row once, however often its id occurs, and the model does not know
where a row came from.

Shape suffixes: U distinct ids, V items, D model dim.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from gr_model.runtime.transfer import moved

FEATURE = "item"
MARKED = 16  # rows for each id that is looked up: of a larger table, a look at every row would take longest


class StaticTable(nn.Embedding):
    """All rows on every process; data parallel like the rest of the model."""

    def lookup(self, *ids: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        return self.weight, ids

    def ids_device(self, device: torch.device) -> torch.device:
        """Where a batch on `device` keeps the ids that it looks up."""
        return device

    def all_rows(self, chunk: int) -> Iterator[torch.Tensor]:
        """The rows of the table in order, `chunk` at a time."""
        yield from self.weight.split(chunk)


LookupResult = tuple[torch.Tensor, tuple[torch.Tensor, ...]]  # rows_UD, and where in it each set of ids is


class CollectionTable(nn.Module):
    """Rows live on the processes that torchrec's plan gives them; the optimizer is fused into the lookup's backward."""

    collection: Any  # of torchrec's interface; sharded once the model is

    def __init__(self, rows: int, dim: int) -> None:
        super().__init__()
        self.rows, self.dim = rows, dim
        self.device = torch.device("meta")  # where the shards are, once there are any
        self._prefetched: LookupResult | None = None

    def lookup(self, *ids: torch.Tensor) -> LookupResult:
        if self._prefetched is not None:
            result, self._prefetched = self._prefetched, None
            return result
        distinct_U, places = self.asked(*ids)
        return self._rows(distinct_U), places

    def asked(self, *ids: torch.Tensor) -> LookupResult:
        """The distinct ids (U,) where the ids are; on the table's device, the places of each set's ids among them."""
        every, device = torch.cat([part.flatten() for part in ids]), self.device
        on_host = every.device.type == "cpu" and self.rows <= MARKED * len(every)
        distinct_U, at = self._marked(every) if on_host else torch.unique(every, return_inverse=True)
        at = moved(at, device)
        places = [part.view(asked.shape) for part, asked in zip(at.split([part.numel() for part in ids]), ids)]
        return distinct_U, tuple(places)

    def ids_device(self, device: torch.device) -> torch.device:
        """Where a batch on `device` keeps the ids that it looks up."""
        return device

    def set_prefetched(self, rows_UD: torch.Tensor, places: tuple[torch.Tensor, ...]) -> None:
        """The answer to the next lookup, which a pipeline has made already."""
        self._prefetched = rows_UD, places

    def all_rows(self, chunk: int) -> Iterator[torch.Tensor]:
        """Every process must ask for all chunks, in step with the others."""
        for start in range(0, self.rows, chunk):
            yield self._rows(torch.arange(start, min(start + chunk, self.rows), device=self.device))

    def in_order(self, distinct_U: np.ndarray) -> np.ndarray:
        """The ascending ids in the order in which they are asked for."""
        return distinct_U

    def _marked(self, ids_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """torch.unique with places, of ids on the host, by a mark for each row: a quarter of the time."""
        ids, (seen, place) = ids_N.numpy(), self._marks
        seen[ids] = True
        distinct_U = self.in_order(np.flatnonzero(seen))
        seen[distinct_U] = False
        place[distinct_U] = np.arange(len(distinct_U))
        return torch.from_numpy(distinct_U), torch.from_numpy(place[ids])

    @functools.cached_property
    def _marks(self) -> tuple[np.ndarray, np.ndarray]:
        """Kept, so that no step takes new pages of memory from the system."""
        return np.zeros(self.rows, np.bool_), np.zeros(self.rows, np.int64)

    def _rows(self, ids_U: torch.Tensor) -> torch.Tensor:
        return self.collection(features(ids_U))[FEATURE].values()


def features(ids_U: torch.Tensor) -> Any:
    """As a torchrec collection takes them."""
    from torchrec import KeyedJaggedTensor

    lengths = torch.tensor([len(ids_U)], device=ids_U.device, dtype=torch.int64)
    return KeyedJaggedTensor(keys=[FEATURE], values=ids_U, lengths=lengths)
