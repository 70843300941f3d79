"""Moves that the threads share: stretches of every length, cut anywhere, and nothing read behind the source."""

import ctypes
import ctypes.util
import mmap
from collections.abc import Iterator

import numpy as np
import pytest
import torch

THREADS = (1, 2, 3)
BATCH = 50_000  # with short rows of 8 bytes, a share of 256 KB and more for each thread
LIBC = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)


@pytest.fixture(params=THREADS)
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def at_the_end_of_memory(values: np.ndarray) -> torch.Tensor:
    """The values in front of a page that nobody may read."""
    size = -(-values.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert LIBC.mprotect(ctypes.c_void_p(start + size), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    placed = np.frombuffer(memory, values.dtype, values.size, size - values.nbytes).reshape(values.shape)
    placed[...] = values
    return torch.from_numpy(placed)


def lengths_of(rng: np.random.Generator, longest: int, batch: int = BATCH) -> np.ndarray:
    """All lengths up to the longest, empty ones in stretches, and a full one at each end."""
    lengths = rng.integers(0, longest + 1, batch)
    lengths[100:200] = 0
    lengths[[0, -1]] = longest
    return lengths


# Segments of a few bytes, of up to two blocks, of up to four and of many; the last ones are 17 KB in the mean, above
# what memcpy is left to.
@pytest.mark.parametrize(
    "batch, longest, width, dtype",
    [
        (BATCH, 3, 1, "i8"),
        (BATCH, 40, 1, "i8"),
        (BATCH, 17, 3, "i2"),
        (BATCH, 9, 5, "u1"),
        (5000, 200, 1, "i8"),
        (5000, 37, 3, "f4"),
        (5000, 60, 64, "f4"),
        (300, 70, 64, "f8"),
    ],
)
@pytest.mark.parametrize("padding", [0, 7])
def test_padded_and_back(threads: int, batch: int, longest: int, width: int, dtype: str, padding: int) -> None:
    rng = np.random.default_rng(longest)
    lengths = lengths_of(rng, longest, batch)
    starts = np.concatenate([[0], lengths.cumsum()])
    values = rng.integers(0, 100, (starts[-1], width)).astype(dtype)
    expected = np.full((batch, longest, width), padding, dtype)
    for b in range(batch):
        expected[b, : lengths[b]] = values[starts[b] : starts[b + 1]]
    offsets = [torch.from_numpy(starts)]
    padded = torch.ops.mxrec.jagged_to_padded_dense(at_the_end_of_memory(values), offsets, [longest], padding)
    assert np.array_equal(padded.numpy(), expected)
    back = torch.ops.mxrec.dense_to_jagged(at_the_end_of_memory(expected), offsets, None)[0]
    assert np.array_equal(back.numpy(), values)


@pytest.mark.parametrize("longest", [2, 20, 70])
@pytest.mark.parametrize("lengths_dtype", ["i4", "i8"])
def test_permuted_bags(threads: int, longest: int, lengths_dtype: str) -> None:
    rng = np.random.default_rng(longest)
    lengths = lengths_of(rng, longest).astype(lengths_dtype)
    starts = np.concatenate([[0], lengths.cumsum()])
    values = rng.integers(0, 10**9, starts[-1])
    weights = rng.random(starts[-1]).astype("f4")
    permute = rng.integers(0, BATCH, BATCH + 1000).astype("i4")  # some bags several times, some never
    places = np.concatenate([np.arange(starts[t], starts[t + 1]) for t in permute])
    found = torch.ops.mxrec.permute_1D_sparse_data(
        torch.from_numpy(permute),
        torch.from_numpy(lengths),
        at_the_end_of_memory(values),
        at_the_end_of_memory(weights),
    )
    for got, expected in zip(found, (lengths[permute], values[places], weights[places])):
        assert got.numpy().dtype == expected.dtype and np.array_equal(got.numpy(), expected)


@pytest.mark.parametrize("dtype", ["i4", "i8", "f4"])
@pytest.mark.parametrize("count", [100_003, 1_000_000])
def test_prefix_sums(threads: int, dtype: str, count: int) -> None:
    values = np.random.default_rng(count).integers(-50, 100, count).astype(dtype)
    sums = torch.ops.mxrec.asynchronous_complete_cumsum(at_the_end_of_memory(values))
    assert np.array_equal(sums.numpy(), np.concatenate([[0], values.astype("i8").cumsum()]).astype(dtype))


# Rows shorter and longer than what a scan asks for ahead (4 KB), of whole cache lines and not.
@pytest.mark.parametrize("dtype", ["i4", "i8", "f4"])
@pytest.mark.parametrize("columns", [1, 16, 505, 1000, 1024, 2003])
def test_prefix_sums_of_rows(threads: int, dtype: str, columns: int) -> None:
    values = np.random.default_rng(columns).integers(-50, 100, (97, columns)).astype(dtype)
    sums = torch.ops.mxrec.asynchronous_complete_cumsum(at_the_end_of_memory(values))
    expected = np.pad(values.astype("i8").cumsum(1), ((0, 0), (1, 0)))
    assert np.array_equal(sums.numpy(), expected.astype(dtype))


@pytest.mark.parametrize("index_dtype", ["i4", "i8"])
@pytest.mark.parametrize("bad", [None, -1, 777])
def test_rank1_sums(threads: int, index_dtype: str, bad: int | None) -> None:
    rng = np.random.default_rng(5)
    index = rng.integers(0, 777, 150_007).astype(index_dtype)
    grad = rng.standard_normal(index.size).astype("f4")
    x = torch.zeros(777)
    if bad is not None:
        index[149_999] = bad
        with pytest.raises(RuntimeError, match=rf"index\[149999\]={bad} out of range"):
            torch.ops.mxrec.index_select_for_rank1_backward(torch.from_numpy(grad), x, torch.from_numpy(index))
        return
    grad_x, grad_index = torch.ops.mxrec.index_select_for_rank1_backward(
        at_the_end_of_memory(grad), x, at_the_end_of_memory(index)
    )
    expected = np.zeros(777, "f4")
    np.add.at(expected, index, grad)  # in the order of the index: the same bits
    assert np.array_equal(grad_x.numpy(), expected)
    assert grad_index.numpy().dtype == index.dtype and not grad_index.any()
