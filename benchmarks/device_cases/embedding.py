"""Lookups in embedding tables, and the updates of their rows."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .case import Case

MXREC = torch.ops.mxrec


def lookups(small: bool) -> Iterator[Case]:
    tables, rows, dim, batch, bag = (2, 1000, 16, 16, 4) if small else (4, 100_000, 64, 256, 20)
    lengths = torch.randint(0, 2 * bag + 1, (tables * batch,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    indices = torch.randint(0, rows, (int(offsets[-1]),))
    starts, columns = torch.arange(tables) * rows * dim, torch.arange(tables + 1, dtype=torch.int32) * dim
    yield Case(
        operator="embedding_pool (SUM)",
        shape=f"{tables} tables, {rows:,} x {dim} fp32, {len(indices):,} indices",
        call=lambda w, s, c, i, o: MXREC.embedding_pool(w, s, c, tables * dim, dim, None, i, o, 0),
        inputs=(torch.rand(tables * rows * dim), starts, columns, indices, offsets),
        moved_bytes=len(indices) * (4 * dim + 8) + 4 * tables * batch * dim,
    )


def updates(small: bool) -> Iterator[Case]:
    """A step of the optimizer inside the backward pass; the result is the table after it."""
    tables, rows, dim, batch, bag = (2, 1000, 16, 16, 4) if small else (4, 100_000, 64, 256, 20)
    lengths = torch.randint(0, 2 * bag + 1, (tables * batch,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    indices = torch.randint(0, rows, (int(offsets[-1]),))
    weights, grad = torch.rand(tables * rows * dim), torch.rand(batch, tables * dim).sub(0.5)
    starts, columns = torch.arange(tables) * rows * dim, torch.arange(tables + 1, dtype=torch.int32) * dim
    owner = torch.arange(tables * batch).div(batch, rounding_mode="floor").repeat_interleave(lengths)
    distinct = len(torch.unique(indices + owner * rows))
    bits = (tables * rows).bit_length()
    for number, name, per_row in ((0, "SGD", 0), (1, "Adagrad", dim), (2, "row-wise Adagrad", 1), (3, "Adam", 2 * dim)):
        moments = [torch.zeros(tables * rows * (1 if number == 2 else dim)) for _ in range((0, 1, 1, 2)[number])]
        places = torch.arange(tables) * rows if number == 2 else starts

        def call(
            grad: torch.Tensor,
            weights: torch.Tensor,
            starts: torch.Tensor,
            columns: torch.Tensor,
            sizes: torch.Tensor,
            indices: torch.Tensor,
            offsets: torch.Tensor,
            places: torch.Tensor,
            *moments: torch.Tensor,
            number: int = number,
        ) -> torch.Tensor:
            first, second = (*moments, None, None)[:2]
            lookup = (weights, starts, columns, dim, sizes, bits, indices, offsets)
            state = (first, places if moments else None, second, places if len(moments) > 1 else None)
            MXREC.embedding_update(
                grad, *lookup, 0, None, None, False, -1.0, number, *state, 0.01, 1e-8, 0.9, 0.999, iter=1
            )
            return weights

        yield Case(
            operator=f"embedding_update ({name})",
            shape=f"{tables} tables, {rows:,} x {dim} fp32, {len(indices):,} indices, {distinct:,} rows",
            call=call,
            inputs=(
                *(grad, weights.clone(), starts, columns, torch.arange(tables + 1) * rows),
                *(indices, offsets, places, *moments),
            ),
            moved_bytes=grad.nbytes + 8 * len(indices) + 2 * 4 * distinct * (dim + per_row),
            tolerance=1e-4,  # gradients of a row that occurs twice are summed in another order
        )
