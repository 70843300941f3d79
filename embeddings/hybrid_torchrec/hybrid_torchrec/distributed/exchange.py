"""Exchanges between ranks: ids to their owners, rows back to who asked, gradients to the owners again.

Everything is launched asynchronously and awaited where its result is needed, forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable
from torchrec.distributed.comm_ops import get_gradient_division
from torchrec.distributed.types import Awaitable

from hybrid_torchrec.distributed.routing import transpose_blocks


class AllToAll(Awaitable[Tensor]):
    """all_to_all_single along dim 0, with splits for each rank."""

    def __init__(self, group: dist.ProcessGroup, sent: Tensor, in_splits: list[int], out_splits: list[int]) -> None:
        super().__init__()
        self._sent = _transportable(sent.contiguous())
        self._dtype = sent.dtype
        self._received = self._sent.new_empty(sum(out_splits), *sent.shape[1:])
        self._work = dist.all_to_all_single(
            self._received, self._sent, out_splits, in_splits, group=group, async_op=True
        )

    def _wait_impl(self) -> Tensor:
        self._work.wait()
        del self._sent
        if self._received.device.type not in ("cpu", "meta"):
            self._received.record_stream(torch.get_device_module(self._received.device).current_stream())
        return self._received.view(self._dtype)


def _transportable(tensor: Tensor) -> Tensor:
    """Bytes travel unchanged: gloo knows no bfloat16."""
    return tensor.view(torch.float16) if tensor.dtype == torch.bfloat16 else tensor


class RowExchange:
    """Rows of the groups of column shards, from their owners to the ranks that asked for them; gradients back.

    Args:
        group: process group of the W ranks.
        asked: (W, S) int64 on the host: rows that this rank asked of each rank and shard.
        owned: (W, S) int64 on the host: rows that each rank asked of each shard on this rank.
        groups: numbers of the shards of each group.
        rows: per group, (sum of owned, D), by shard, then by rank.
        update: takes a group's number and the gradients of its rows (sum of owned, D) float32, in the order of `rows`.
    """

    def __init__(
        self,
        group: dist.ProcessGroup,
        asked: Tensor,
        owned: Tensor,
        groups: Sequence[Sequence[int]],
        rows: Sequence[Tensor],
        update: Callable[[int, Tensor], None],
    ) -> None:
        self._group = group
        self._asked = [asked[:, list(part)] for part in groups]
        self._owned = [owned[:, list(part)] for part in groups]
        self._rows = list(rows)
        self._update = update
        self._flying: list[AllToAll] = []

    def start(self, anchors: Sequence[Tensor]) -> Tensor:
        """Launches the rows. `anchors`: leaf tensors through which autograd finds its way back. Give the result to
        `wait`."""
        token: Tensor = _Start.apply(self, *anchors)
        return token

    def wait(self, token: Tensor) -> tuple[Tensor, ...]:
        """Per group, (sum of asked, D) float32, by rank, then by shard."""
        rows: tuple[Tensor, ...] = _Wait.apply(self, token)
        return rows

    def send_rows(self) -> None:
        for owned, asked, rows in zip(self._owned, self._asked, self._rows):
            if _blocks_per_rank(owned) > 1:
                rows = rows[transpose_blocks(owned.t(), rows.device)]
            self._flying.append(AllToAll(self._group, rows, owned.sum(1).tolist(), asked.sum(1).tolist()))
        self._rows.clear()

    def send_gradients(self, grads: Sequence[Tensor]) -> None:
        for owned, asked, grad in zip(self._owned, self._asked, grads):
            self._flying.append(AllToAll(self._group, grad, asked.sum(1).tolist(), owned.sum(1).tolist()))

    def receive(self) -> list[Tensor]:
        received = [exchange.wait() for exchange in self._flying]
        self._flying.clear()
        return received

    def apply_gradients(self) -> None:
        share = 1.0 / self._group.size() if get_gradient_division() else 1.0
        for number, (owned, grads) in enumerate(zip(self._owned, self.receive())):
            grads *= share  # here they are ours, and need no copy
            if _blocks_per_rank(owned) > 1:
                grads = grads[transpose_blocks(owned, grads.device)]
            self._update(number, grads)


def _blocks_per_rank(owned: Tensor) -> int:
    """How many shards of a group have rows on this rank; with one, order by shard and by rank are the same."""
    return int((owned.sum(0) > 0).sum())


class _Start(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, exchange: RowExchange, *anchors: Tensor) -> Tensor:
        ctx.exchange = exchange
        ctx.anchors = len(anchors)
        exchange.send_rows()
        return torch.zeros(1, device=anchors[0].device)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, ...]:
        ctx.exchange.apply_gradients()
        return (None,) * (1 + ctx.anchors)


class _Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, exchange: RowExchange, token: Tensor) -> tuple[Tensor, ...]:
        ctx.exchange = exchange
        ctx.save_for_backward(token)
        return tuple(rows.float() for rows in exchange.receive())

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        ctx.exchange.send_gradients(grads)
        (token,) = ctx.saved_tensors
        return None, torch.zeros_like(token)
