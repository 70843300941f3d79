"""The relative bias on Hopper and the gradients of its tables, tile by tile, in NumPy (gluon_in_numpy.py) against the
formulas in float64. The kernels around them need such a GPU (test_hopper_relative.py)."""

import gluon_in_numpy
import numpy as np
import pytest
import time_buckets
import torch
from gluon_in_numpy import Pointer, Tensor, memory
from gr_ops.cuda.hopper import diagonals, near_sums, times

ON_GPU = torch.cuda.is_available()
pytestmark = pytest.mark.skipif(ON_GPU, reason="the kernels themselves are tested there (test_hopper_relative.py)")
HALF, SCALE, HEADS = 0.35, 0.25, 2
TIME = torch.randn(time_buckets.COUNT, generator=torch.Generator().manual_seed(1))
LENGTHS = (0, 270, 5)
GAPS = {
    "one time": lambda x: (0 * x).long(),
    "minutes": lambda x: (-240 * (1 - x).log()).long(),
    "hours": lambda x: (-9000 * (1 - x).log()).long(),
    "ages": lambda x: (2 ** (40 * x) - 1).long(),
    "no order": lambda x: ((x - 0.4) * 1e6).long(),
}
SEGMENTS = {"causal": (0, 0), "contexts and targets": (70, 40)}


class Item:
    def __init__(self, begin, length, sequence, contexts, targets, head):
        facts = {
            "begin": begin,
            "length": length,
            "sequence": sequence,
            "context": min(contexts, length),
            "history": length - min(targets, length),
            "head": head,
        }
        for name, value in facts.items():
            setattr(self, name, Tensor(value, "int32"))


class Batch:
    def __init__(self, gaps, sign, position):
        generator = torch.Generator().manual_seed(3)
        self.rows = [10**9 + GAPS[gaps](torch.rand(n, generator=generator)).cumsum(0) for n in LENGTHS]
        self.seconds, self.sign = torch.cat(self.rows), sign
        self.cells = time_buckets.cells(torch.device("cpu"))
        self.offsets = torch.tensor([0, *torch.tensor(LENGTHS).cumsum(0).tolist()])
        self.total, self.longest = sum(LENGTHS), max(LENGTHS)
        self.blocks, self.pairs = -(-self.longest // 64), (times.BEFORE + len(position) + times.BEHIND + 1) // 2
        self.band = torch.full((4 * self.pairs,), torch.nan)
        self.tables = torch.full((times.size(self.total, 64),), 7 << 40)
        self.codes = torch.full((len(LENGTHS), self.blocks, times.AROUND + self.blocks), 7 << 40)
        layout, sizes = (64, times.DIAGONALS), (times.PADDING, times.HEADER, times.CELLS, times.FAR)
        arguments = (position, TIME, self.seconds, self.cells, self.offsets, self.band, self.tables, HALF)
        numbers = (len(LENGTHS), self.total, self.longest, self.blocks, len(position), len(TIME), self.pairs)
        programs = len(LENGTHS) * self.blocks
        grid = (programs + 64 // times.SEARCHED + -(-len(self.band) // 1024),)
        times.prepare[grid](*arguments, *numbers, True, 64, times.SEARCHED, *layout, times.BEFORE, *sizes, 1024)
        arguments = (self.offsets, self.tables, self.codes, self.total, self.longest, self.blocks)
        constants = (True, sign == 1, times.FIRST, times.AROUND, *layout, *sizes, 128)
        times.encode[(programs, 1 + times.DIAGONALS)](*arguments, *constants)

    def relative(self, module):
        band, codes = (memory(x.numpy()) for x in (self.band, self.codes))
        memory(self.tables.numpy())
        numbers = (Tensor(n, "int32") for n in (self.blocks, self.pairs))
        return module.Relative(Pointer(band, "float32"), Pointer(codes, "int64"), *numbers, True, self.sign)

    def cell(self, row, query, key, history):
        """Distances and buckets of queries and keys."""
        place = np.minimum(np.arange(len(row)), history)
        distance = np.maximum(place[query] - place[key], 0)
        starts = np.array(time_buckets.STARTS)
        apart = np.maximum((row[query] - row[key]).numpy(), 0)
        return distance, np.searchsorted(starts, apart, side="right") - 1


def grid(first, at, length, sign):
    """Of the tile's cells that are there: masks by row and column, queries and keys."""
    row, column = np.arange(first, first + 64), np.arange(at, at + 64)
    inside = (row < length)[:, None] & (column < length)[None, :]
    row, column = np.minimum(row, length - 1)[:, None], np.minimum(column, length - 1)[None, :]
    query, key = np.broadcast_arrays(*((row, column) if sign == 1 else (column, row)))
    return inside, query, key


@pytest.mark.parametrize("masks", SEGMENTS)
@pytest.mark.parametrize("sign", [1, -1], ids=["rows are queries", "rows are keys"])
@pytest.mark.parametrize("gaps", GAPS)
def test_scores(gaps, sign, masks):
    relative_module, _ = gluon_in_numpy.modules()
    contexts, targets = SEGMENTS[masks]
    segments = masks != "causal"
    position = torch.randn(max(LENGTHS) + 5)
    batch = Batch(gaps, sign, position)
    relative = batch.relative(relative_module)
    place = relative.place()
    for sequence, row in enumerate(batch.rows):
        n = len(row)
        item = Item(int(batch.offsets[sequence]), n, sequence, contexts, targets, 0)
        for first in range(0, n, 64):
            for at in [*range(0, n, 64), *([17, 50] if segments and sign == 1 else [])]:
                if at >= n or (not segments and sign * (first - at) < 0):
                    continue
                rows, start = (Tensor(x, "int32") for x in (first, at))
                codes = relative.row_of(item, rows)
                early = relative.early(place, item, rows, start, segments)
                positions = relative.late(early, place, item, rows, start, segments, None)
                score = Tensor(np.random.default_rng(at).standard_normal((64, 64)), "float32")
                half = Tensor(HALF, "float32")
                code = relative.code(codes, start)
                aligned = not (segments and sign == 1)
                bias = relative.bias(positions, code, rows, start, segments, aligned, None)
                found = relative.complete(score * half, bias, code, codes, item, rows, start, aligned).values
                apart = int(sign * (first - at))
                near = 0 <= apart < 64 * times.DIAGONALS
                inside, query, key = grid(first, at, n, sign)
                # Where queries are before keys contexts alone see them, and every distance is 0.
                inside = inside & ((query >= key) | segments)
                distance, bucket = batch.cell(row, query, key, n - min(targets, n))
                right = (score.values + position.numpy()[distance] + TIME.double().numpy()[bucket]) * HALF
                np.testing.assert_allclose(found[inside], right[inside], atol=2e-3, rtol=0)
                if near and not segments:
                    masked = (score * half + relative.near_bias(positions, codes, rows, start, None)).values
                    np.testing.assert_allclose(masked[inside], right[inside], atol=2e-3, rtol=0)
                if at % 64 or not near:  # float16 at the diagonal
                    np.testing.assert_allclose(found[inside], right[inside], atol=4e-6, rtol=0)


@pytest.mark.parametrize("masks", SEGMENTS)
@pytest.mark.parametrize("gaps", GAPS)
def test_sums(gaps, masks):
    relative_module, sums_module = gluon_in_numpy.modules()
    contexts, targets = SEGMENTS[masks]
    segments = masks != "causal"
    position = torch.randn(max(LENGTHS) + 5)
    batch = Batch(gaps, -1, position)
    relative = batch.relative(relative_module)
    of_position, of_time = torch.zeros(1, len(position)), torch.zeros(1, time_buckets.COUNT)
    pairs = diagonals.pairs_of(max(LENGTHS))
    of_blocks = torch.zeros(1, pairs * diagonals.NUMBERS)
    of_near = torch.full((HEADS, batch.total, times.DIAGONALS, 64), torch.nan, dtype=torch.bfloat16)
    sums = sums_module.Sums(
        Pointer(memory(of_position.numpy()), "float32"),
        Pointer(memory(of_blocks.numpy()), "float32"),
        Pointer(memory(of_time.numpy()), "float32"),
        Pointer(memory(of_near.view(torch.int16).numpy()), "bfloat16"),
        Tensor(batch.total, "int32"),
    )
    right = [np.zeros(len(position)), np.zeros(time_buckets.COUNT)]
    draw, scale = np.random.default_rng(2), Tensor(SCALE, "float32")
    for sequence, row in enumerate(batch.rows):
        n = len(row)
        for head in range(HEADS):
            item = Item(int(batch.offsets[sequence]), n, sequence, contexts, targets, head)
            for first in range(0, n, 128):
                keys = Tensor(first, "int32")
                codes = [relative.row_of(item, keys), relative.row_of(item, keys + 64)]
                running = sums_module.nothing_yet()
                # As the kernels': masked tiles first, among them the last one; of contexts, those before.
                tiles = [first, first + 64, *range(0, min(contexts * segments, first), 64)]
                tiles += [n // 64 * 64] * (n // 64 * 64 > first + 64 and n % 64 > 0)
                tiles += range(first + 128, n // 64 * 64, 64)
                for at in (at for at in tiles if at < n):
                    start, halves = Tensor(at, "int32"), []
                    for half in range(2):
                        inside, query, key = grid(first + 64 * half, at, n, -1)
                        seen = inside & ((query >= key) | ((query < contexts) & segments))
                        values = np.where(seen, draw.standard_normal((64, 64)), 0.0)
                        halves.append(gluon_in_numpy.Shared(values))
                        distance, bucket = batch.cell(row, query, key, n - min(targets, n))
                        for out, index in zip(right, (distance, bucket)):
                            np.add.at(out, index, halves[-1].values.astype(np.float64) * SCALE)
                    bits = (
                        relative.bits(relative.code(code, start), item, keys + 64 * half, start)
                        for half, code in enumerate(codes)
                    )
                    running = sums_module.add_tile(
                        gluon_in_numpy.Shared(np.concatenate([half.values for half in halves])),
                        *halves,
                        sums,
                        relative,
                        running,
                        item,
                        keys,
                        start,
                        *bits,
                        scale,
                        segments,
                    )
                sums_module.put_all(sums, running, scale)
    counts = [torch.tensor([min(x, n) for n in LENGTHS]) for x in (contexts, 0)]
    numbers = (batch.total, batch.longest, batch.blocks, 1, SCALE, *of_time.shape)
    constants = (True, HEADS, segments, 64, times.DIAGONALS, 128, times.FIRST, times.AROUND, near_sums.TOGETHER)
    arguments = (of_near, of_time, batch.seconds, batch.cells, batch.codes, batch.offsets, *counts)
    near_sums.add_near[(len(LENGTHS) * batch.blocks, times.DIAGONALS)](*arguments, *numbers, *constants)
    out, time_out = (torch.full((n,), torch.nan) for n in (len(position), time_buckets.COUNT))
    numbers = (pairs, len(position), *of_time.shape, SCALE)
    constants = (segments, 1, diagonals.BEFORE, diagonals.FIRST, diagonals.NUMBERS, diagonals.DISTANCES, 64, 8)
    programs = -(-len(position) // diagonals.DISTANCES) + 1
    outs = (of_blocks, of_position, of_time, out, time_out)
    diagonals.add_diagonals[(programs,)](*outs, *numbers, *constants)
    for found, wanted in zip((out, time_out), right):
        error = np.linalg.norm(found.double().numpy() - wanted) / np.linalg.norm(wanted)
        assert error < 1e-5, error
