"""mxrec::new_operator on each device against float64: values, gradients, messages."""

import pytest
import torch

op = torch.ops.mxrec
FACTOR = -1.7
TOLERANCE = {torch.float32: 2**-23, torch.float16: 2**-10}  # one rounding of the result


def reference(x: torch.Tensor) -> torch.Tensor:
    """The operators compute with a float32 factor."""
    return x.cpu().double() * torch.tensor(FACTOR, dtype=torch.float32).double()


# nothing, one element, several dimensions, more elements than one core or thread takes
@pytest.mark.parametrize("shape", [(0, 3), (1,), (3, 4, 5), (70001,)], ids=str)
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
def test_values(device: str, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype).to(device)
    y = op.new_operator(x, FACTOR)
    assert y.dtype == dtype and y.shape == x.shape and y.device == x.device
    torch.testing.assert_close(y.cpu().double(), reference(x), rtol=TOLERANCE[dtype], atol=2**-24)


def test_strided_input(device: str) -> None:
    x = torch.randn(6, 8, generator=torch.Generator().manual_seed(2)).to(device).t()[::2]
    torch.testing.assert_close(op.new_operator(x, FACTOR).cpu().double(), reference(x), rtol=2**-23, atol=2**-24)


def test_gradients(device: str) -> None:
    x = torch.randn(9, generator=torch.Generator().manual_seed(3)).to(device).requires_grad_()
    weights = torch.arange(9, dtype=torch.float32, device=device)
    (op.new_operator(x, FACTOR) * weights).sum().backward()
    torch.testing.assert_close(x.grad.cpu().double(), reference(weights), rtol=2**-23, atol=2**-24)


def test_dtype_is_refused(device: str) -> None:
    with pytest.raises(RuntimeError, match="new_operator: x has an unsupported dtype; expected float32 or float16"):
        op.new_operator(torch.ones(3, dtype=torch.int64, device=device), FACTOR)
