"""The worked examples of the documents and fbgemm's observed results."""

import pytest
import torch

DEVICE = "npu:0"
pytestmark = pytest.mark.usefixtures("each_device")


@pytest.fixture(params=["fbgemm", "mxrec"])
def ops(request: pytest.FixtureRequest):
    return getattr(torch.ops, request.param)


def npu(data: object, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(data, dtype=dtype).to(DEVICE)


def rows(count: int, width: int) -> torch.Tensor:
    return torch.arange(1, count * width + 1, dtype=torch.float32).view(count, width).to(DEVICE)


OFFSETS = [0, 2, 5, 6]


def test_document_example_1_one_dimensional_values(ops) -> None:
    for lengths in (50, [50]):
        dense = ops.jagged_to_padded_dense(npu([1, 2, 3, 4, 5, 6]), [npu(OFFSETS)], lengths)
        assert dense.device == torch.device(DEVICE) and dense.dtype == torch.int64 and dense.shape == (3, 50)
        zeros = [0] * 47
        assert dense.tolist() == [[1, 2, 0, *zeros], [3, 4, 5, *zeros], [6, 0, 0, *zeros]]
        assert dense.sum().item() == 21


def test_document_example_2_dense_without_inner_dimension(ops) -> None:
    dense = torch.zeros(3, 10, dtype=torch.int64)
    dense[0, :2], dense[1, :3], dense[2, :1] = torch.tensor([1, 2]), torch.tensor([3, 4, 5]), torch.tensor([6])
    offsets = [npu(OFFSETS)]
    values, returned = ops.dense_to_jagged(dense.to(DEVICE), offsets)
    assert values.tolist() == [1, 2, 3, 4, 5, 6] and values.dtype == torch.int64 and values.shape == (6,)
    assert [offset.tolist() for offset in returned] == [OFFSETS]
    assert returned[0].data_ptr() == offsets[0].data_ptr()


def test_document_figure(ops) -> None:
    dense = torch.arange(48, dtype=torch.float32).view(3, 4, 4)
    values, _ = ops.dense_to_jagged(dense.to(DEVICE), [npu([0, 4, 6, 7])])
    assert values.cpu().equal(torch.cat([dense[0], dense[1, :2], dense[2, :1]]))


def test_document_cumsum(ops) -> None:
    offsets = ops.asynchronous_complete_cumsum(npu([2, 3, 1, 4], torch.int32))
    assert offsets.tolist() == [0, 2, 5, 6, 10] and offsets.dtype == torch.int32


@pytest.mark.parametrize(
    ("lengths", "padding", "expected"),
    [
        ([1], 0, [[[1, 2]], [[5, 6]], [[11, 12]]]),
        ([3], 7, [[[1, 2], [3, 4], [7, 7]], [[5, 6], [7, 8], [9, 10]], [[11, 12], [7, 7], [7, 7]]]),
    ],
)
def test_one_jagged_dimension(ops, lengths: list[int], padding: float, expected: list[object]) -> None:
    assert ops.jagged_to_padded_dense(rows(6, 2), [npu(OFFSETS)], lengths, padding).tolist() == expected


def test_empty_batch_and_empty_rows(ops) -> None:
    empty = torch.zeros(0, 2, device=DEVICE)
    assert ops.jagged_to_padded_dense(empty, [npu([0])], [3]).shape == (0, 3, 2)
    padded = ops.jagged_to_padded_dense(empty, [npu([0, 0, 0])], [3], 5.0)
    assert padded.tolist() == [[[5, 5]] * 3] * 2
    assert ops.jagged_to_padded_dense(rows(6, 2), [npu(OFFSETS)], [0]).shape == (3, 0, 2)
    assert ops.dense_to_jagged(torch.zeros(0, 3, 2, device=DEVICE), [npu([0])])[0].shape == (0, 2)
    assert ops.dense_to_jagged(torch.zeros(3, 0, 2, device=DEVICE), [npu(OFFSETS)])[0].tolist() == [[0, 0]] * 6


def test_two_jagged_dimensions(ops) -> None:
    offsets = [npu([0, 2, 3]), npu([0, 1, 3, 6])]
    o = [0, 0]
    assert ops.jagged_to_padded_dense(rows(6, 2), offsets, [2, 3]).tolist() == [
        [[[1, 2], o, o], [[3, 4], [5, 6], o]],
        [[[7, 8], [9, 10], [11, 12]], [o, o, o]],
    ]
    assert ops.jagged_to_padded_dense(rows(6, 2), offsets, [1, 2]).tolist() == [
        [[[1, 2], o]],
        [[[7, 8], [9, 10]]],
    ]


def test_dense_to_jagged(ops) -> None:
    dense = rows(12, 2).view(3, 4, 2)
    values, _ = ops.dense_to_jagged(dense, [npu(OFFSETS)])
    assert values.flatten().tolist() == [1, 2, 3, 4, 9, 10, 11, 12, 13, 14, 17, 18]
    values, _ = ops.dense_to_jagged(dense[:, :2], [npu(OFFSETS)])
    assert values.flatten().tolist() == [1, 2, 3, 4, 9, 10, 11, 12, 0, 0, 17, 18]


def test_gradient_of_to_dense(ops) -> None:
    values = torch.zeros(6, 2, device=DEVICE, requires_grad=True)
    ops.jagged_to_padded_dense(values, [npu(OFFSETS)], [2]).backward(rows(6, 2).view(3, 2, 2))
    assert values.grad.flatten().tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 9, 10]


@pytest.mark.parametrize(
    ("lengths", "dtype", "expected"),
    [
        ([2**31 - 1, 1, 5], torch.int32, [0, 2147483647, -2147483648, -2147483643]),
        ([2, -3, 1], torch.int64, [0, 2, -1, 0]),
        ([], torch.int32, [0]),
        ([[], []], torch.int64, [[0], [0]]),
        ([[2, 3], [1, 4]], torch.int64, [[0, 2, 5], [0, 1, 5]]),
    ],
)
def test_cumsum(ops, lengths: list[object], dtype: torch.dtype, expected: list[object]) -> None:
    result = ops.asynchronous_complete_cumsum(npu(lengths, dtype))
    assert result.tolist() == expected and result.dtype == dtype


def test_cumsum_of_no_rows_and_relatives(ops) -> None:
    assert ops.asynchronous_complete_cumsum(torch.zeros(0, 3, dtype=torch.int64, device=DEVICE)).shape == (0, 4)
    lengths = npu([[2, 3], [1, 4]])
    assert ops.asynchronous_inclusive_cumsum(lengths).tolist() == [[2, 5], [6, 10]]
    assert ops.asynchronous_exclusive_cumsum(lengths).tolist() == [[0, 2], [5, 6]]
