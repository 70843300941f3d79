"""Which tiles a program visits: those of keys for a tile of queries, and of queries for a tile of keys.

mask.py gives ranges of tokens beyond which nothing is seen. Here each is cut into tiles, those that need a mask and
those of which every query sees every key, numbered so that masked ones come first. SiLU needs no running maximum, so
the order is free, and loader and consumers go by the same numbers. Plain Triton: Gluon kernels call it, and tests run
it in the interpreter.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gr_ops.cuda.mask import visible_keys, visible_queries


@triton.jit
def row_of(offsets, contexts, targets, sequence, total, longest, SEGMENTS: tl.constexpr):
    """Where a sequence begins, its length, contextual tokens and where its targets begin; inside of [0, total) whatever
    the tensors hold."""
    begin = tl.minimum(tl.maximum(tl.load(offsets + sequence), 0), total).to(tl.int32)
    end = tl.minimum(tl.load(offsets + sequence + 1), total).to(tl.int32)
    length = tl.minimum(tl.maximum(end - begin, 0), longest)
    context, history = length * 0, length
    if SEGMENTS:
        context = tl.minimum(tl.maximum(tl.load(contexts + sequence), 0), length).to(tl.int32)
        history = length - tl.minimum(tl.maximum(tl.load(targets + sequence), 0), length).to(tl.int32)
    return begin, length, context, history


@triton.jit
def key_tiles(
    first,
    last,
    length,
    context,
    history,
    group,
    window,
    min_full,
    SEGMENTS: tl.constexpr,
    WINDOW: tl.constexpr,
    K: tl.constexpr,
):
    """Of the queries from `first` to `last`: three ranges of keys that need masks, (at, end) each, the start of the
    tiles without one between the third and the first, and how many tiles there are with a mask and without."""
    start, stop, start_2, stop_2 = visible_keys(
        first, last, length, context, history, group, window, min_full, 0, SEGMENTS, WINDOW
    )
    stop = tl.maximum(stop, start)
    if WINDOW:  # the last query's window ends where the first key is that all queries see
        shift = tl.maximum(context - 1, 0)
        lowest = tl.minimum(tl.maximum(last - shift, 0), history - shift) - window
        inner = tl.where(lowest <= 0, 0, lowest + shift)
        inner = tl.minimum(tl.maximum(inner, start), stop)
    else:
        inner = start
    unmasked = tl.maximum(tl.minimum(first, stop) - inner, 0) // K
    if WINDOW:
        inner = tl.where(unmasked > 0, inner, start)  # one range is then enough
    edge = inner + unmasked * K
    masked = (stop - edge + K - 1) // K
    if SEGMENTS:
        masked += (tl.maximum(stop_2 - start_2, 0) + K - 1) // K + (inner - start + K - 1) // K
    return edge, stop, start_2, stop_2, start, inner, masked, unmasked


@triton.jit
def key_tile(number, edge, stop, start_2, stop_2, start, inner, masked, SEGMENTS: tl.constexpr, K: tl.constexpr):
    """Where a tile begins, and where its range ends."""
    at, end = edge + number * K, stop
    if SEGMENTS:
        ones = (stop - edge + K - 1) // K
        twos = ones + (tl.maximum(stop_2 - start_2, 0) + K - 1) // K
        at = tl.where(
            number < ones, at, tl.where(number < twos, start_2 + (number - ones) * K, start + (number - twos) * K)
        )
        end = tl.where(number < ones, stop, tl.where(number < twos, stop_2, inner))
    return tl.where(number < masked, at, inner + (number - masked) * K), tl.where(number < masked, end, edge)


@triton.jit
def query_tiles(
    first,
    last,
    length,
    context,
    history,
    group,
    window,
    min_full,
    SEGMENTS: tl.constexpr,
    WINDOW: tl.constexpr,
    Q: tl.constexpr,
):
    """Of the keys from `first` to `last`: two ranges of queries that need masks, (at, end) each, then `unmasked` tiles
    from `inner` on, then a third masked range from behind them to its end; and the number of tiles with a mask."""
    start, stop, start_2, stop_2 = visible_queries(
        first, last, length, context, history, group, window, min_full, 0, SEGMENTS, WINDOW, Q
    )
    stop_2 = tl.maximum(stop_2, start_2)
    # From the first tile behind the last key on every query sees the keys, if they are of the history.
    inner = tl.minimum((last + Q) // Q * Q, stop_2)
    until = tl.minimum(stop_2, length)
    if SEGMENTS:
        until = tl.where(last < history, until, inner)
    if WINDOW:  # and as long as the window of the last query holds the first key
        shift = tl.maximum(context - 1, 0)
        farthest = tl.minimum(tl.maximum(first - shift, 0), history - shift) + window
        seen_until = tl.where(farthest < history - shift, farthest + shift + 1, until)
        until = tl.minimum(until, seen_until)
    unmasked = tl.maximum(until - inner, 0) // Q
    behind = inner + unmasked * Q
    masked = (inner - start_2 + Q - 1) // Q + (stop_2 - behind + Q - 1) // Q
    if SEGMENTS:
        masked += (tl.maximum(stop - start, 0) + Q - 1) // Q
    return start, stop, start_2, stop_2, inner, behind, masked, unmasked


@triton.jit
def query_tile(number, start, stop, start_2, stop_2, inner, behind, masked, SEGMENTS: tl.constexpr, Q: tl.constexpr):
    """Where a tile begins, and where its range ends."""
    ones = (inner - start_2 + Q - 1) // Q
    twos = ones + (stop_2 - behind + Q - 1) // Q
    at = tl.where(number < ones, start_2 + number * Q, behind + (number - ones) * Q)
    end = tl.where(number < ones, inner, stop_2)
    if SEGMENTS:
        at = tl.where(number < twos, at, start + (number - twos) * Q)
        end = tl.where(number < twos, end, stop)
    return tl.where(number < masked, at, inner + (number - masked) * Q), tl.where(number < masked, end, behind)
