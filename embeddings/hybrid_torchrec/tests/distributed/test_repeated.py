"""Rows that stand for several values of a batch, and the sums of those values' gradients."""

import pytest
import torch
from hybrid_torchrec.distributed.repeated import repeated


@pytest.mark.parametrize(("rows", "values"), [(1, 1), (5, 40), (300, 1000), (7, 0), (0, 0)])
def test_values_and_gradients_are_those_of_a_selection(rows: int, values: int) -> None:
    """Small integers, whose sums are exact in whatever order; some rows stand for no value."""
    torch.manual_seed(rows)
    source = torch.randint(-9, 9, (rows, 12)).float().requires_grad_()
    index = torch.randint(max(1, rows - 2), (values,))
    gradient = torch.randint(-9, 9, (values, 12)).float()
    found = repeated(source, index)
    found.backward(gradient)
    expected = torch.zeros(rows, 12)
    for place, row in enumerate(index.tolist()):
        assert torch.equal(found[place], source[row])
        expected[row] += gradient[place]
    assert torch.equal(source.grad, expected)


def test_a_gradient_of_another_layout_is_taken_as_it_is() -> None:
    source = torch.randn(3, 4).requires_grad_()
    repeated(source, torch.tensor([2, 0, 2])).sum().backward()  # every element of the gradient is the same memory
    assert torch.equal(source.grad, torch.tensor([1.0, 0.0, 2.0]).unsqueeze(1).expand(3, 4))


def test_an_index_beyond_the_rows_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"slots\[1\] is 3, outside of the table's 3 slots"):
        repeated(torch.randn(3, 4), torch.tensor([0, 3]))
