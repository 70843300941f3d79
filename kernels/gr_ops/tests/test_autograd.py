"""Gradients of every order. The operators are linear, so integers in floating point must agree exactly."""

from collections.abc import Callable

import numpy as np
import pytest
import reference
import torch

DEVICE = "npu:0"
pytestmark = pytest.mark.usefixtures("each_device")
CASES = {
    "one level": ([[0, 2, 5, 6]], [4], (2,)),
    "truncated": ([[0, 2, 5, 6]], [2], (3,)),
    "scalar rows": ([[0, 2, 5, 6]], [2], ()),
    "first offset above zero": ([[1, 2, 5]], [2], (2,)),
    "two levels": ([[0, 2, 3], [0, 1, 3, 6]], [2, 2], (2,)),
    "trailing dimensions": ([[0, 1, 4]], [3], (2, 2)),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest):
    offsets, lengths, trailing = request.param
    return [np.array(offset) for offset in offsets], lengths, trailing


@pytest.fixture(params=["fbgemm", "mxrec"])
def ops(request: pytest.FixtureRequest):
    return getattr(torch.ops, request.param)


def counting(shape: tuple[int, ...], start: float = 1.0) -> torch.Tensor:
    return torch.arange(start, start + float(np.prod(shape))).view(shape)


def on_npu(offsets: list[np.ndarray]) -> list[torch.Tensor]:
    return [torch.from_numpy(offset).to(DEVICE) for offset in offsets]


def leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone().to(DEVICE).requires_grad_()


def test_to_dense(ops, case) -> None:
    offsets, lengths, trailing = case
    rows = int(offsets[-1][-1]) + 1  # one row that the offsets do not cover
    values = leaf(counting((rows, *trailing)))
    dense = ops.jagged_to_padded_dense(values, on_npu(offsets), lengths, 3.0)
    weight = counting(tuple(dense.shape), 5.0)
    (grad,) = torch.autograd.grad(dense, values, weight.to(DEVICE))
    np.testing.assert_array_equal(grad.cpu().numpy(), reference.unpad(weight.numpy(), offsets, rows))


@pytest.mark.parametrize("missing", [-1, 0, 1])
def test_to_jagged(ops, case, missing: int) -> None:
    offsets, lengths, trailing = case
    total = int(offsets[-1][-1]) - missing  # fewer, all and more rows than the offsets describe
    dense = leaf(counting((len(offsets[0]) - 1, *lengths, *trailing)))
    values, _ = ops.dense_to_jagged(dense, on_npu(offsets), total)
    weight = counting(tuple(values.shape), 5.0)
    (grad,) = torch.autograd.grad(values, dense, weight.to(DEVICE))
    np.testing.assert_array_equal(grad.cpu().numpy(), reference.pad(weight.numpy(), offsets, lengths, 0))


def directional_hessian(
    function: Callable[[torch.Tensor], torch.Tensor], point: torch.Tensor, direction: torch.Tensor
) -> torch.Tensor:
    """H v of sum(f(x)^3), which double backward alone can give; f is linear with value y: 6 f'(y * f v)."""
    x = point.clone().to(DEVICE).requires_grad_()
    (grad,) = torch.autograd.grad((function(x) ** 3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad((grad * direction.to(DEVICE)).sum(), x)
    return second


def test_double_backward_of_to_dense(ops, case) -> None:
    offsets, lengths, trailing = case
    rows = int(offsets[-1][-1])
    point, direction = counting((rows, *trailing)), counting((rows, *trailing), -3.0)
    second = directional_hessian(lambda x: ops.jagged_to_padded_dense(x, on_npu(offsets), lengths), point, direction)
    y, fv = (reference.pad(t.numpy(), offsets, lengths, 0) for t in (point, direction))
    np.testing.assert_array_equal(second.cpu().numpy(), reference.unpad(6 * y * fv, offsets, rows))


def test_double_backward_of_to_jagged(ops, case) -> None:
    offsets, lengths, trailing = case
    total = int(offsets[-1][-1])
    shape = (len(offsets[0]) - 1, *lengths, *trailing)
    point, direction = counting(shape), counting(shape, -3.0)
    second = directional_hessian(lambda x: ops.dense_to_jagged_forward(x, on_npu(offsets)), point, direction)
    y, fv = (reference.unpad(t.numpy(), offsets, total) for t in (point, direction))
    np.testing.assert_array_equal(second.cpu().numpy(), reference.pad(6 * y * fv, offsets, lengths, 0))


def test_helpers_are_differentiable_by_themselves(ops, case) -> None:
    offsets, lengths, trailing = case
    rows = int(offsets[-1][-1])
    grad_output = leaf(counting((len(offsets[0]) - 1, *lengths, *trailing)))
    grad_values = ops.jagged_to_padded_dense_backward(grad_output, on_npu(offsets), rows)
    weight = counting(tuple(grad_values.shape))
    (first,) = torch.autograd.grad(grad_values, grad_output, weight.to(DEVICE))
    np.testing.assert_array_equal(first.cpu().numpy(), reference.pad(weight.numpy(), offsets, lengths, 0))

    grad = leaf(counting((rows, *trailing)))
    grad_dense = ops.dense_to_jagged_backward(grad, on_npu(offsets), lengths)
    weight = counting(tuple(grad_dense.shape))
    (second,) = torch.autograd.grad(grad_dense, grad, weight.to(DEVICE))
    np.testing.assert_array_equal(second.cpu().numpy(), reference.unpad(weight.numpy(), offsets, rows))


def test_expanded_gradient(ops) -> None:
    values = leaf(counting((6, 2)))
    ops.jagged_to_padded_dense(values, on_npu([np.array([0, 2, 5, 6])]), [2]).sum().backward()  # stride 0
    assert values.grad.tolist() == [[1, 1]] * 4 + [[0, 0]] + [[1, 1]]


def test_gradient_equals_that_on_the_cpu() -> None:
    offsets = [np.array([0, 3, 3, 9]), np.concatenate([[0], np.cumsum([1, 4, 0, 2, 3, 1, 5, 2, 1])])]
    values = counting((int(offsets[-1][-1]), 3))
    grads = []
    for device in ("cpu", DEVICE):
        x = values.clone().to(device).requires_grad_()
        moved = [torch.from_numpy(offset).to(device) for offset in offsets]
        dense = torch.ops.fbgemm.jagged_to_padded_dense(x, moved, [4, 3], 1.0)
        (dense * counting(tuple(dense.shape)).to(device)).sum().backward()
        grads.append(x.grad.cpu())
    assert grads[0].equal(grads[1])


def test_what_never_requires_a_gradient(ops) -> None:
    offsets = on_npu([np.array([0, 2, 5, 6])])
    assert not ops.jagged_to_padded_dense(torch.arange(6).to(DEVICE), offsets, [2]).requires_grad
    lengths = leaf(torch.ones(3))
    assert not ops.asynchronous_complete_cumsum(lengths).requires_grad


def test_no_grad_and_inference_mode(ops) -> None:
    offsets = on_npu([np.array([0, 2, 5, 6])])
    values = leaf(counting((6,)))
    with torch.no_grad():
        assert not ops.jagged_to_padded_dense(values, offsets, [2]).requires_grad
    with torch.inference_mode():
        assert ops.jagged_to_padded_dense(values, offsets, [2]).tolist() == [[1, 2], [3, 4], [6, 0]]
        dense = ops.jagged_to_padded_dense(values, offsets, [3])
        assert ops.dense_to_jagged(dense, offsets)[0].tolist() == [1, 2, 3, 4, 5, 6]


def test_gradcheck_in_double() -> None:
    offsets = [torch.tensor([0, 2, 2, 5]), torch.tensor([0, 1, 3, 3, 4, 6])]
    values = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    dense = torch.randn(3, 2, 2, 2, dtype=torch.float64, requires_grad=True)
    for space in (torch.ops.fbgemm, torch.ops.mxrec):
        for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
            assert check(lambda v, s=space: s.jagged_to_padded_dense(v, offsets, [2, 2], 1.0), (values,))
            assert check(lambda d, s=space: s.dense_to_jagged(d, offsets, 5)[0], (dense,))


def test_tangents_are_refused_not_dropped() -> None:
    """Calls without requires_grad go past autograd, but not where a forward-mode derivative is asked for."""
    x = torch.ones(3, 2, device=DEVICE)
    offsets = [torch.tensor([0, 1, 3], device=DEVICE)]
    index = torch.tensor([2, 0], device=DEVICE)
    permute, lengths = torch.tensor([1, 0], device=DEVICE), torch.tensor([[1], [2]], device=DEVICE)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        column = torch.autograd.forward_ad.make_dual(x[:, 0].contiguous(), x[:, 0].contiguous())
        for call in (
            lambda: torch.ops.mxrec.jagged_to_padded_dense(dual, offsets, [2]),
            lambda: torch.ops.mxrec.jagged_to_padded_dense_backward(dual.unsqueeze(2), [offsets[0].new_zeros(4)], 0),
            lambda: torch.ops.mxrec.gather_for_rank1(column, index),
            lambda: torch.ops.mxrec.permute_2D_sparse_data(permute, lengths, dual),
        ):
            with pytest.raises(RuntimeError, match="jvp"):
                call()
