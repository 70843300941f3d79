"""Values against the recursive reference, and against fbgemm's CPU kernels where those are defined."""

import numpy as np
import pytest
import reference
import torch
from moves import DTYPES, INTEGERS, bits, random_values

DEVICE = "npu:0"
pytestmark = pytest.mark.usefixtures("each_device")


def random_offsets(rng: np.random.Generator, batch: int, levels: int, longest: int) -> list[np.ndarray]:
    offsets = []
    nodes = batch
    for _ in range(levels):
        offsets.append(np.concatenate([[0], np.cumsum(rng.integers(0, longest + 1, nodes))]))
        nodes = int(offsets[-1][-1])
    return offsets


def on_npu(offsets: list[np.ndarray], dtype: torch.dtype = torch.int64) -> list[torch.Tensor]:
    return [torch.from_numpy(offset).to(dtype).to(DEVICE) for offset in offsets]


def padding_pattern(value: float, dtype: torch.dtype) -> int:
    return int(bits(torch.tensor([value]).to(dtype))[0])


# 1 to 5 are the supported K; inner sizes: below, at and above 32 bytes, and one that no power of two divides.
@pytest.mark.parametrize("levels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("trailing", [(), (1,), (8,), (37,), (2, 3)])
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_both_directions(levels: int, trailing: tuple[int, ...], index_dtype: torch.dtype) -> None:
    rng = np.random.default_rng(levels * 100 + len(trailing) * 10 + sum(trailing))
    for batch in (1, 5):
        offsets = random_offsets(rng, batch, levels, 3)
        total = int(offsets[-1][-1])
        lengths = [int(n) for n in rng.integers(1, 5, levels)]  # shorter than the rows too: truncation
        values = random_values(rng, (total, *trailing), torch.float32)
        dense = torch.ops.mxrec.jagged_to_padded_dense(values.to(DEVICE), on_npu(offsets, index_dtype), lengths, 7.0)
        assert dense.is_contiguous()
        expected = reference.pad(bits(values), offsets, lengths, padding_pattern(7.0, torch.float32))
        np.testing.assert_array_equal(bits(dense), expected)

        back, same = torch.ops.mxrec.dense_to_jagged(dense, on_npu(offsets, index_dtype))
        assert [offset.dtype for offset in same] == [index_dtype] * levels
        np.testing.assert_array_equal(bits(back), reference.unpad(expected, offsets, total))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_moves_bit_exactly(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(3)
    offsets = random_offsets(rng, 6, 1, 9)
    values = random_values(rng, (int(offsets[0][-1]), 5), dtype)
    dense = torch.ops.mxrec.jagged_to_padded_dense(values.to(DEVICE), on_npu(offsets), [6], 1.0)
    assert dense.dtype == dtype
    np.testing.assert_array_equal(bits(dense), reference.pad(bits(values), offsets, [6], padding_pattern(1.0, dtype)))
    back = torch.ops.mxrec.dense_to_jagged_forward(dense, on_npu(offsets))
    np.testing.assert_array_equal(bits(back), reference.unpad(bits(dense), offsets, len(values)))


@pytest.mark.parametrize(
    ("dtype", "padding", "expected"),
    [
        (torch.int32, 2.7, 2),
        (torch.int8, -128.9, -128),
        (torch.uint8, 255.5, 255),
        (torch.int64, float(2**53), 2**53),
        (torch.bool, 0.5, True),
        (torch.bool, 0.0, False),
        (torch.float16, 1e6, float("inf")),
        (torch.float32, 0.1, np.float32(0.1)),
        (torch.float64, 0.1, 0.1),
        (torch.complex64, 2.5, 2.5 + 0j),
    ],
)
@pytest.mark.parametrize("rows", [0, 1])  # 0: the path without a kernel
def test_padding_is_converted_as_in_c(dtype: torch.dtype, padding: float, expected: object, rows: int) -> None:
    values = torch.zeros(rows, dtype=dtype).to(DEVICE)
    offsets = [torch.tensor([0, rows]).to(DEVICE)]
    assert torch.ops.mxrec.jagged_to_padded_dense(values, offsets, [2], padding).cpu()[0, 1].item() == expected


def test_nan_padding() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        values = torch.zeros(1, 2, dtype=dtype, device=DEVICE)
        offsets = [torch.tensor([0, 1]).to(DEVICE)]
        dense = torch.ops.mxrec.jagged_to_padded_dense(values, offsets, [2], float("nan")).cpu()
        assert dense[0, 1].isnan().all() and not dense[0, 0].isnan().any()


@pytest.mark.parametrize("total", [0, 1, 4, 6, 9])
def test_total_length_rules(total: int) -> None:
    offsets = [np.array([0, 2, 5, 6])]
    dense = torch.arange(1.0, 25.0).view(3, 4, 2)
    expected = reference.unpad(dense.numpy(), offsets, total)
    for op in (torch.ops.fbgemm.dense_to_jagged_forward, torch.ops.mxrec.dense_to_jagged_forward):
        assert op(dense.to(DEVICE), on_npu(offsets), total).cpu().numpy().tolist() == expected.tolist()


def test_first_offset_above_zero_is_accepted() -> None:
    offsets = [np.array([2, 3, 5])]
    values = torch.arange(1.0, 13.0).view(6, 2)
    dense = torch.ops.mxrec.jagged_to_padded_dense(values.to(DEVICE), on_npu(offsets), [2])
    np.testing.assert_array_equal(dense.cpu().numpy(), reference.pad(values.numpy(), offsets, [2], 0))
    back = torch.ops.mxrec.dense_to_jagged_forward(dense, on_npu(offsets))
    np.testing.assert_array_equal(back.cpu().numpy(), reference.unpad(dense.cpu().numpy(), offsets, 5))


def test_non_contiguous_arguments() -> None:
    rng = np.random.default_rng(5)
    offsets = random_offsets(rng, 4, 1, 5)
    wide = torch.from_numpy(rng.standard_normal((6, int(offsets[0][-1]) + 2)).astype(np.float32))
    strided = torch.from_numpy(np.repeat(offsets[0], 2)).to(DEVICE)[::2]
    values = wide.to(DEVICE).t()[2:, 1:4]  # strides and a storage offset
    assert not values.is_contiguous() and not strided.is_contiguous()
    dense = torch.ops.mxrec.jagged_to_padded_dense(values, [strided], [4])
    expected = reference.pad(wide.t()[2:, 1:4].numpy(), offsets, [4], 0)
    np.testing.assert_array_equal(dense.cpu().numpy(), expected)
    transposed = dense.transpose(1, 2).contiguous().transpose(1, 2)
    assert not transposed.is_contiguous()
    back = torch.ops.mxrec.dense_to_jagged_forward(transposed, [strided])
    np.testing.assert_array_equal(back.cpu().numpy(), reference.unpad(expected, offsets, int(offsets[0][-1])))
    lengths = torch.arange(12).view(3, 4)
    result = torch.ops.mxrec.asynchronous_complete_cumsum(lengths.to(DEVICE).t())
    assert result.tolist() == [[0, *row] for row in lengths.t().cumsum(1).tolist()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_equal_to_the_cpu(dtype: torch.dtype, levels: int) -> None:
    rng = np.random.default_rng(levels)
    offsets = random_offsets(rng, 7, levels, 4)
    total = int(offsets[-1][-1])
    lengths = [3] * levels
    values = torch.from_numpy(rng.integers(-9, 9, (total, 6))).to(dtype)
    plain = [torch.from_numpy(offset) for offset in offsets]
    expected = torch.ops.fbgemm.jagged_to_padded_dense(values, plain, lengths, 2.0)
    dense = torch.ops.fbgemm.jagged_to_padded_dense(values.to(DEVICE), on_npu(offsets), lengths, 2.0)
    assert dense.device == torch.device(DEVICE) and dense.cpu().equal(expected)
    expected_back, _ = torch.ops.fbgemm.dense_to_jagged(expected, plain, total)
    back, _ = torch.ops.fbgemm.dense_to_jagged(dense, on_npu(offsets), total)
    assert back.cpu().equal(expected_back)


# 8191 to 8193: the spec's border between one core and a scan over several; the others: tails of every kind.
@pytest.mark.parametrize("shape", [(1,), (7,), (255,), (8191,), (8193,), (70001,), (3, 5), (64, 33), (2, 9000)])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_cumsum_is_exact_and_wraps(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    rng = np.random.default_rng(shape[-1])
    lengths = random_values(rng, shape, dtype)
    plain = lengths.numpy()
    expected = np.concatenate(
        [np.zeros((*shape[:-1], 1), plain.dtype), np.cumsum(plain, axis=-1, dtype=plain.dtype)], axis=-1
    )
    result = torch.ops.mxrec.asynchronous_complete_cumsum(lengths.to(DEVICE))
    np.testing.assert_array_equal(result.cpu().numpy(), expected)


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("shape", [(17,), (1500,), (9, 130)])
def test_float_cumsum_accumulates_wide(dtype: torch.dtype, rtol: float, shape: tuple[int, ...]) -> None:
    lengths = torch.from_numpy(np.random.default_rng(1).uniform(0, 1, shape)).to(dtype)
    result = torch.ops.mxrec.asynchronous_complete_cumsum(lengths.to(DEVICE)).cpu()
    expected = lengths.double().cumsum(-1)
    assert result.dtype == dtype and (result[..., 0] == 0).all()
    torch.testing.assert_close(result[..., 1:].double(), expected, rtol=rtol, atol=rtol)
