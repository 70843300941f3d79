"""Padded results that are written past the caches (16 MiB and more), and long lines that memcpy writes: every byte."""

import numpy as np
import pytest
import torch
from moves import bits, random_values

STREAMED = 16 * 2**20  # bytes of a result: kStreamed of csrc/common/moves.h


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("padding", [0.0, 1.0])
@pytest.mark.parametrize(
    ("dtype", "length", "trailing"),
    [
        (torch.float32, 200, (64,)),
        (torch.float16, 100, (96,)),
        (torch.float32, 16, (3,)),  # segments that end within a block of 64 bytes
        (torch.int8, 64, ()),
        (torch.int64, 200, ()),
        (torch.float32, 203, (5,)),  # lines that are no whole blocks: 4,060 bytes
        (torch.float16, 2047, (5,)),  # 20,470 bytes
    ],
    ids=str,
)
def test_padded_lines(dtype: torch.dtype, length: int, trailing: tuple[int, ...], padding: float, threads: int) -> None:
    rng = np.random.default_rng(length)
    bytes_of_row = int(np.prod(trailing)) * dtype.itemsize
    batch = STREAMED // (length * bytes_of_row) + 1
    lengths = rng.integers(0, length + 3, batch)  # some have more rows than a line
    lengths[:3] = 0, length, length + 2
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values = random_values(rng, (int(offsets[-1]), *trailing), dtype)
    expected = np.full((batch, length, *trailing), bits(torch.full((1,), padding).to(dtype))[0], bits(values).dtype)
    for line, (start, end) in enumerate(zip(offsets, offsets[1:], strict=False)):
        stored = min(end - start, length)
        expected[line, :stored] = bits(values)[start : start + stored]

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        got = torch.ops.mxrec.jagged_to_padded_dense(values, [torch.from_numpy(offsets)], [length], padding)
        back, _ = torch.ops.mxrec.dense_to_jagged(got, [torch.from_numpy(offsets)], int(offsets[-1]))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(bits(got), expected)
    held = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], lengths) < length
    np.testing.assert_array_equal(bits(back)[held], bits(values)[held])
    assert not bits(back)[~held].any()
