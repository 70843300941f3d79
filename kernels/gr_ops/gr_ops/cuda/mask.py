"""The mask: which keys a query sees (mask types, contextual tokens, targets, local window), and the tiles with any.

A row is [contextual | history | targets]; `history` is where its targets begin. SEGMENTS: some rows have contextual
tokens or targets, or there is a window. WINDOW: 0, HISTORY (max_attn_len) or DISTANCE (window_size). `min_full`: that
many last tokens of the history are not narrowed by a window (min_full_attn_seq_len).
"""

from __future__ import annotations

import triton
import triton.language as tl

LOWER, UPPER, NONE, USER = 0, 1, 2, 3  # mask types
HISTORY, DISTANCE = 1, 2  # windows


@triton.jit
def visible(
    query,
    key,
    length,
    contexts,
    history,
    group,
    window,
    min_full,
    MASK: tl.constexpr,
    SEGMENTS: tl.constexpr,
    WINDOW: tl.constexpr,
):
    """Bool, of tokens [Q, 1] and [1, K] or the other way; all of them with mask types NONE and USER."""
    if MASK == 1:
        found = key >= query
    elif MASK != 0:
        found = (query >= 0) & (key >= 0)
    elif WINDOW == 1:
        shift = tl.maximum(contexts - 1, 0)  # contextual tokens count as one, all targets as one
        most = history - shift
        of_query = tl.minimum(tl.maximum(query - shift, 0), most)
        of_key = tl.minimum(tl.maximum(key - shift, 0), most)
        distance = of_query - of_key
        near = (distance <= window) | ((min_full > 0) & (of_query >= most - min_full))
        found = ((query == key) | (distance > 0)) & near
        found = found | ((contexts > 0) & (of_query == 0) & (of_key < most))
    else:
        found = key <= query
        if SEGMENTS:
            same_group = (query - history) // group == (key - history) // group
            found = found & ((query < history) | (key < history) | same_group)
            if WINDOW == 2:
                found = found & (query - key <= window)
            found = found | ((query < contexts) & (key < history))
    return found


@triton.jit
def visible_keys(
    first,
    last,
    length,
    contexts,
    history,
    group,
    window,
    min_full,
    MASK: tl.constexpr,
    SEGMENTS: tl.constexpr,
    WINDOW: tl.constexpr,
):
    """Two ranges of keys, [start, stop) each, beyond which the queries from `first` to `last` see none."""
    start, stop, start_2, stop_2 = 0, length, 0, 0
    if MASK == 1:
        start = first
    elif MASK == 0:
        stop = tl.minimum(last + 1, history)
        if SEGMENTS:
            stop = tl.where(first < contexts, history, stop)
            earliest = tl.maximum(first, history)
            start_2 = history + (earliest - history) // group * group
            stop_2 = tl.where(last >= history, last + 1, start_2)
        if WINDOW == 2:
            start = tl.where(first < contexts, 0, tl.minimum(tl.maximum(first - window, 0), stop))
            start_2 = tl.maximum(start_2, tl.minimum(earliest - window, stop_2))
        elif WINDOW == 1:
            shift = tl.maximum(contexts - 1, 0)
            most = history - shift
            farthest = tl.minimum(tl.maximum(first - shift, 0), most) - window
            unlimited = (min_full > 0) & (tl.minimum(tl.maximum(last - shift, 0), most) >= most - min_full)
            start = tl.where(unlimited | (farthest <= 0), 0, tl.minimum(farthest + shift, stop))
    return start, stop, start_2, stop_2


@triton.jit
def visible_queries(
    first,
    last,
    length,
    contexts,
    history,
    group,
    window,
    min_full,
    MASK: tl.constexpr,
    SEGMENTS: tl.constexpr,
    WINDOW: tl.constexpr,
    Q: tl.constexpr,
):
    """Two ranges of queries that begin at a multiple of Q, beyond which none sees the keys from `first` to `last`."""
    start, stop, start_2, stop_2 = 0, 0, 0, length
    if MASK == 1:
        stop_2 = last + 1
    elif MASK == 0:
        start_2 = first // Q * Q
        if SEGMENTS:
            stop = tl.where(first < history, tl.minimum(contexts, start_2), 0)
            of_group = history + ((last - history) // group + 1) * group
            stop_2 = tl.where(first < history, length, tl.minimum(of_group, length))
        if WINDOW == 2:
            stop_2 = tl.minimum(stop_2, last + window + 1)
        elif WINDOW == 1:
            shift = tl.maximum(contexts - 1, 0)
            most = history - shift
            farthest = tl.minimum(tl.maximum(last - shift, 0), most) + window
            limited = (min_full == 0) & (farthest < most) & (first < history)
            stop_2 = tl.where(limited, tl.minimum(stop_2, tl.maximum(farthest + shift + 1, last + 1)), stop_2)
    return start, stop, start_2, stop_2


@triton.jit
def loop_bounds(start, stop, start_2, stop_2, SEGMENTS: tl.constexpr, SIZE: tl.constexpr):
    """Where a loop over the tiles of two ranges, of the first one alone, or of the second, begins and ends. Without
    SEGMENTS one range is empty, and the loop counts tokens: its addresses then follow from its counter, which the
    compiler's pipeline of loads needs to be fast."""
    if SEGMENTS:
        begin, end = 0, (stop - start + SIZE - 1) // SIZE + (stop_2 - start_2 + SIZE - 1) // SIZE
    else:
        begin, end = tl.where(stop > start, start, start_2), tl.where(stop > start, stop, stop_2)
    return begin, end


@triton.jit
def tile_bounds(step, start, stop, start_2, stop_2, SEGMENTS: tl.constexpr, SIZE: tl.constexpr):
    """Where the tile of a step begins, and where its range ends."""
    if SEGMENTS:
        tiles = (stop - start + SIZE - 1) // SIZE
        second = step >= tiles
        at = tl.where(second, start_2 + (step - tiles) * SIZE, start + step * SIZE)
        end = tl.where(second, stop_2, stop)
    else:
        at, end = step, tl.where(stop > start, stop, stop_2)
    return at, end
