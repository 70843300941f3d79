"""A token's vector: a row of a table times a number, and a row for its place, through dropout.

One pass writes it. One pass over its gradient adds up what each place gets, over the sequences, and sends the rest to
the rows of the tables by atomic sums, so gradients of rows that many tokens show are sums in any order.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from gr_ops.cuda.layer.dropout import halves, mixed, of_bits
from gr_ops.cuda.layer.launch import launch

ELEMENTS = 2048  # of a program at a time
PROGRAMS = 1056  # backward, at least, where there are sequences for them: eight for each multiprocessor of an H100
Gradients = tuple[torch.Tensor | None, ...]


@triton.jit
def _kept(token_M, low, high, threshold, scale, P: tl.constexpr):
    """[M, P]: 0 where dropout takes an element, else `scale`; `low`, `high`: the halves of the seed."""
    first_M = token_M.to(tl.int64) * P
    upper_M = mixed((first_M >> 32).to(tl.uint32))
    lower_MP = (first_M & 0xFFFFFFFF).to(tl.uint32)[:, None] + tl.arange(0, P).to(tl.uint32)[None, :]
    drawn_MP = mixed(mixed(lower_MP ^ (of_bits(low) + upper_M)[:, None]) ^ of_bits(high))
    return tl.where(drawn_MP >= of_bits(threshold), scale, 0.0)


@triton.jit
def _rows(table, at_M, column_P, width, there_MP):
    return tl.load(table + (at_M.to(tl.int64) * width)[:, None] + column_P[None, :], mask=there_MP, other=0.0)


@triton.jit(do_not_specialize=["tokens", "contexts", "items", "low", "high", "threshold"])
def embed(
    contextual,
    table,
    item,
    actions,
    action,
    places,
    source,
    place,
    out,
    tokens,
    contexts,
    items,
    width,
    times,
    low,
    high,
    threshold,
    kept,
    DROPS: tl.constexpr,
    M: tl.constexpr,
    P: tl.constexpr,
):
    """`source`: of a token, a row of contextual vectors, items and actions one after another."""
    token_M, column_P = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, P)
    there_M = token_M < tokens
    wide_P = column_P < width
    at_M = tl.load(source + token_M, mask=there_M, other=0).to(tl.int32)
    is_item_M = there_M & (at_M >= contexts) & (at_M < contexts + items)
    is_action_M = there_M & (at_M >= contexts + items)
    is_context_M = there_M & (at_M < contexts)
    item_M = tl.load(item + (at_M - contexts), mask=is_item_M, other=0)
    action_M = tl.load(action + (at_M - contexts - items), mask=is_action_M, other=0)
    x_MP = _rows(table, item_M, column_P, width, is_item_M[:, None] & wide_P[None, :])
    x_MP += _rows(actions, action_M, column_P, width, is_action_M[:, None] & wide_P[None, :])
    x_MP += _rows(contextual, at_M, column_P, width, is_context_M[:, None] & wide_P[None, :])
    place_M = tl.load(place + token_M, mask=there_M, other=0)
    there_MP = there_M[:, None] & wide_P[None, :]
    x_MP = x_MP * times + _rows(places, place_M, column_P, width, there_MP)
    if DROPS:
        x_MP *= _kept(token_M, low, high, threshold, kept, P)
    tl.store(out + (token_M.to(tl.int64) * width)[:, None] + column_P[None, :], x_MP, mask=there_MP)


@triton.jit(
    do_not_specialize=["contexts", "items", "sequences", "share", "longest", "tiles", "low", "high", "threshold"]
)
def embed_backward(
    grad,
    offsets,
    item,
    action,
    source,
    of_contextual,
    of_table,
    of_actions,
    of_places,
    contexts,
    items,
    sequences,
    share,
    longest,
    tiles,
    width,
    grad_stride,
    times,
    low,
    high,
    threshold,
    kept,
    DROPS: tl.constexpr,
    M: tl.constexpr,
    P: tl.constexpr,
):
    """A program has M places, and goes through a share of the sequences; each share has sums of its own."""
    place_M, column_P = tl.program_id(0) % tiles * M + tl.arange(0, M), tl.arange(0, P)
    first = tl.program_id(0) // tiles * share
    wide_P = column_P < width
    sum_MP = tl.zeros([M, P], tl.float32)
    for sequence in range(first, tl.minimum(first + share, sequences)):
        begin = tl.load(offsets + sequence)
        length = (tl.load(offsets + sequence + 1) - begin).to(tl.int32)
        there_M = place_M < length
        token_M = begin.to(tl.int32) + place_M
        there_MP = there_M[:, None] & wide_P[None, :]
        of_x_MP = tl.load(
            grad + (token_M.to(tl.int64) * grad_stride)[:, None] + column_P[None, :], mask=there_MP, other=0.0
        )
        if DROPS:
            of_x_MP *= _kept(token_M, low, high, threshold, kept, P)
        sum_MP += of_x_MP
        at_M = tl.load(source + token_M, mask=there_M, other=0).to(tl.int32)
        is_item_M = there_M & (at_M >= contexts) & (at_M < contexts + items)
        is_action_M = there_M & (at_M >= contexts + items)
        is_context_M = there_M & (at_M < contexts)
        item_M = tl.load(item + (at_M - contexts), mask=is_item_M, other=0).to(tl.int64)
        action_M = tl.load(action + (at_M - contexts - items), mask=is_action_M, other=0).to(tl.int64)
        to_MP = column_P[None, :]
        of_row_MP = of_x_MP * times
        tl.atomic_add(
            of_table + (item_M * width)[:, None] + to_MP, of_row_MP, is_item_M[:, None] & wide_P[None, :], sem="relaxed"
        )
        tl.atomic_add(
            of_actions + (action_M * width)[:, None] + to_MP,
            of_row_MP,
            is_action_M[:, None] & wide_P[None, :],
            sem="relaxed",
        )
        if contexts > 0:
            tl.store(
                of_contextual + (at_M.to(tl.int64) * width)[:, None] + to_MP,
                of_row_MP,
                mask=is_context_M[:, None] & wide_P[None, :],
            )
    of_places += tl.program_id(0) // tiles * longest.to(tl.int64) * width
    tl.store(
        of_places + (place_M.to(tl.int64) * width)[:, None] + column_P[None, :],
        sum_MP,
        mask=(place_M < longest)[:, None] & wide_P[None, :],
    )


def tokens(
    contextual_CD: torch.Tensor | None,
    table_RD: torch.Tensor,
    item_I: torch.Tensor,
    actions_RD: torch.Tensor | None,
    action_I: torch.Tensor,
    places_RD: torch.Tensor,
    source_L: torch.Tensor,
    place_L: torch.Tensor,
    offsets_B1: torch.Tensor,
    longest: int,
    times: float,
    p: float,
    seed: int,
) -> torch.Tensor:
    """x [L, D] float32 = dropout(times * rows[source] + places[place]), with the rows [contextual, table[item],
    actions[action]] one after another; dropout of probability `p` by `seed`.

    `place_L` is each token's number in its sequence, of at most `longest` tokens. Tables are float32 and contiguous.
    """
    none = table_RD.new_empty(0, table_RD.shape[1])
    contextual = none if contextual_CD is None else contextual_CD
    actions = none if actions_RD is None else actions_RD
    dropout = (*halves(seed, p), 1 / (1 - p), p > 0)
    out: torch.Tensor = Tokens.apply(
        contextual,
        table_RD,
        actions,
        places_RD,
        item_I,
        action_I,
        source_L,
        place_L,
        offsets_B1,
        longest,
        times,
        dropout,
    )
    return out


class Tokens(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        contextual: torch.Tensor,
        table: torch.Tensor,
        actions: torch.Tensor,
        places: torch.Tensor,
        item: torch.Tensor,
        action: torch.Tensor,
        source: torch.Tensor,
        place: torch.Tensor,
        offsets: torch.Tensor,
        longest: int,
        times: float,
        dropout: tuple[Any, ...],
    ) -> torch.Tensor:
        width = table.shape[1]
        out = torch.empty(len(source), width, dtype=torch.float32, device=table.device)
        rows, padded = _shape(width)
        tables = (contextual.contiguous(), table, item, actions, action, places, source, place, out)
        numbers = (len(source), len(contextual), len(item), width, times, *dropout, rows, padded)
        if len(source):
            launch(embed, triton.cdiv(len(source), rows), (*tables, *numbers), num_warps=4)
        ctx.save_for_backward(item, action, source, offsets)
        ctx.sizes = contextual.shape, table.shape, actions.shape, places.shape
        ctx.numbers = longest, times, dropout
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> Gradients:
        item, action, source, offsets = ctx.saved_tensors
        longest, times, dropout = ctx.numbers
        of_tables = [torch.zeros(size, dtype=torch.float32, device=grad.device) for size in ctx.sizes]
        of_contextual, of_table, of_actions, of_places = of_tables
        grad = grad if grad.stride(1) == 1 else grad.contiguous()
        if not len(grad):
            return *of_tables, *(None,) * 8
        rows, padded = _shape(grad.shape[1])
        tiles, sequences = triton.cdiv(longest, rows), len(offsets) - 1
        share = triton.cdiv(sequences, triton.cdiv(PROGRAMS, tiles))
        shares = triton.cdiv(sequences, share)
        sums = of_places if shares == 1 else grad.new_empty(shares, longest, grad.shape[1])
        tensors = (grad, offsets, item, action, source, of_contextual, of_table, of_actions, sums)
        numbers = (
            len(of_contextual),
            len(item),
            sequences,
            share,
            longest,
            tiles,
            grad.shape[1],
            grad.stride(0),
            times,
        )
        launch(embed_backward, tiles * shares, (*tensors, *numbers, *dropout, rows, padded), num_warps=4)
        if shares > 1:
            of_places[:longest] = sums.sum(0)
        return *of_tables, *(None,) * 8


def _shape(width: int) -> tuple[int, int]:
    padded = triton.next_power_of_2(width)
    return max(1, ELEMENTS // padded), padded
