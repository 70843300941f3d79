"""TrainedRows: the rows of a table by their slots: lookups, and optimizer steps."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

from hybrid_torchrec.backends.base import Backend, Gradient
from hybrid_torchrec.host_copies import on_host
from hybrid_torchrec.table import autograd
from hybrid_torchrec.table.pending import PendingGradients
from hybrid_torchrec.table_config import TableConfig

POOLINGS = ("sum", "mean")


class TrainedRows:
    """What a HashTable (hash_table.py) does with rows whose slots are known; it makes the parts named here."""

    config: TableConfig
    learning_rate: float
    accumulate: bool  # gradients of backward passes wait for apply_gradients
    updates: int  # optimizer steps, for bias corrections
    # Called, under the lock, with slots (L,) on the CPU whose rows are about to change, be counted or go.
    before_change: list[Callable[[torch.Tensor], None]]
    lock: threading.RLock  # held by every call that changes the table
    backend: Backend
    pending_gradients: PendingGradients

    def lookup(self, slots: torch.Tensor) -> torch.Tensor:
        """Rows of slots (L,); (L, D) float32. Not differentiable: see embed."""
        return self.backend.gather(slots)

    def lookup_pooled(
        self, slots: torch.Tensor, offsets: torch.Tensor, pooling: str, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Bags of rows: bag b has slots [offsets[b], offsets[b + 1]), offsets (B + 1,) int64; (B, D) float32.

        pooling: 'sum' or 'mean' (divided by the bag's length); weights (L,): factors of the rows. Empty bags give 0.
        """
        return self.backend.pool(slots, offsets, self.is_mean(pooling), weights)

    def embed(self, slots: torch.Tensor) -> torch.Tensor:
        """lookup, differentiable: the backward pass is the optimizer's step of these rows (``update``).

        One step per call: join the slots of all features that share the table, so that a row takes one step.
        """
        return autograd.embed(self, slots)

    def embed_pooled(
        self, slots: torch.Tensor, offsets: torch.Tensor, pooling: str, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """lookup_pooled, differentiable as embed is; weights get their gradient, with the rows as they are then."""
        return autograd.embed_pooled(self, slots, offsets, pooling, weights)

    def update(
        self,
        slots: torch.Tensor,
        grads: torch.Tensor,
        *,
        offsets: torch.Tensor | None = None,
        pooling: str = "sum",
        weights: torch.Tensor | None = None,
        apply: bool = True,
    ) -> None:
        """One optimizer step of each distinct slot in slots (L,), with the sum of its gradients; slot 0 is left alone.

        grads (L, D), or (B, D) of pooled bags with the arguments that lookup_pooled had. apply=False: the gradients
        wait and are added to those of the next update or apply_gradients (gradient accumulation).
        """
        gradient = Gradient(slots=slots, values=grads, offsets=offsets, mean=self.is_mean(pooling), samples=weights)
        with self.lock:
            self.pending_gradients.add(gradient)
            if apply:
                self.apply_gradients()

    def sample_weight_gradients(
        self, slots: torch.Tensor, offsets: torch.Tensor, grads: torch.Tensor, pooling: str
    ) -> torch.Tensor:
        """Gradient (L,) float32 of the factors of lookup_pooled, for grads (B, D) of its result."""
        return self.backend.sample_weight_gradients(slots, offsets, grads, self.is_mean(pooling))

    def apply_gradients(self) -> None:
        """The optimizer step of all gradients that wait."""
        with self.lock:
            gradient = self.pending_gradients.take()
            if gradient is None:
                return
            self.updates += 1
            self._changing(gradient.slots)
            self.backend.update(gradient, self.learning_rate, self.updates)

    def is_mean(self, pooling: str) -> bool:
        """Of a pooling, 'sum' or 'mean'; ValueError for another."""
        if pooling not in POOLINGS:
            raise ValueError(f"table '{self.config.name}': pooling must be one of {POOLINGS}, got '{pooling}'")
        return pooling == "mean"

    # Internals.

    def _changing(self, slots: torch.Tensor) -> None:
        if self.before_change:
            slots = on_host(slots)
            for watcher in self.before_change:
                watcher(slots)
