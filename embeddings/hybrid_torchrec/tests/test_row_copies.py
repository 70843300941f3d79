"""take_rows and put_rows: rows of several tensors by slots, bit by bit, against indexing."""

import pytest
import torch
from hybrid_torchrec import HashTable  # noqa: F401  loads the operators

OPS = torch.ops.hybrid_torchrec
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def columns_of(rows: int, dtype: torch.dtype) -> list[torch.Tensor]:
    return [
        torch.randn(rows, 7).to(dtype),
        torch.randn(rows),
        torch.randn(rows, 33),
        torch.arange(rows),
        torch.empty(rows, 0),
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [0, 1, 25, 3000])
def test_rows_are_those_of_indexing(dtype: torch.dtype, count: int) -> None:
    columns = columns_of(4000, dtype)
    slots = torch.randperm(4000)[:count]
    taken = OPS.take_rows(columns, slots)
    assert all(torch.equal(rows, column[slots]) for rows, column in zip(taken, columns, strict=True))
    given = [rows.flip(0) for rows in columns_of(count, dtype)]
    expected = [column.clone() for column in columns]
    for column, rows in zip(expected, given, strict=True):
        column[slots] = rows
    OPS.put_rows(columns, slots, given)
    assert all(torch.equal(column, other) for column, other in zip(columns, expected, strict=True))


def test_repeated_slots_are_taken_as_often() -> None:
    (rows,) = OPS.take_rows([torch.arange(12.0).view(6, 2)], torch.tensor([5, 0, 5]))
    assert rows.tolist() == [[10.0, 11.0], [0.0, 1.0], [10.0, 11.0]]


@pytest.mark.parametrize("slot", [-1, 6, 2**40])
def test_slots_outside_are_refused(slot: int) -> None:
    columns, slots = [torch.zeros(9, 2), torch.zeros(6)], torch.tensor([0, slot])
    with pytest.raises(RuntimeError, match=rf"take_rows: slots\[1\] is {slot}, outside of the table's 6 slots"):
        OPS.take_rows(columns[1:], slots)
    with pytest.raises(RuntimeError, match=rf"put_rows: slots\[1\] is {slot}, outside"):
        OPS.put_rows(columns, slots, [torch.ones(2, 2), torch.ones(2)])
    assert all((column == 0).all() for column in columns)


def test_rows_that_do_not_fit_are_refused() -> None:
    column, slots = torch.zeros(4, 2), torch.tensor([0, 1])
    for rows in (torch.ones(2, 3), torch.ones(3, 2), torch.ones(2, 2).half(), torch.ones(())):
        with pytest.raises(RuntimeError, match="put_rows: rows of"):
            OPS.put_rows([column], slots, [rows])
    with pytest.raises(RuntimeError, match="1 columns, but rows of 0"):
        OPS.put_rows([column], slots, [])
    with pytest.raises(RuntimeError, match="a column must be contiguous"):
        OPS.take_rows([column.t()], slots)
    assert (column == 0).all()
