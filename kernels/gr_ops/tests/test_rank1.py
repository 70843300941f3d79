"""gather_for_rank1 and index_select_for_rank1_backward."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from moves import DTYPES, bits, random_values

INDICES = [torch.int32, torch.int64]


@pytest.fixture(params=["fbgemm", "mxrec"])
def ops(request: pytest.FixtureRequest):
    return getattr(torch.ops, request.param)


def test_golden(ops, device: str) -> None:
    x = torch.tensor([1.5, 2.5, 3.5]).to(device).requires_grad_()
    index = torch.tensor([2, 0, 2, 1]).to(device)
    y = ops.gather_for_rank1(x, index)
    assert y.tolist() == [3.5, 1.5, 3.5, 2.5]
    grad_x, grad_index = ops.index_select_for_rank1_backward(torch.tensor([1.0, 2.0, 3.0, 4.0]).to(device), x, index)
    assert grad_x.tolist() == [2, 4, 4] and grad_index.tolist() == [0] * 4 and grad_index.dtype == torch.int64
    y.backward(torch.tensor([1.0, 2.0, 3.0, 4.0]).to(device))
    assert x.grad.tolist() == [2, 4, 4]


# 20480 is where the peer stops; 1 and 33: one element and a tail; 100 000: larger than any on-chip buffer.
@pytest.mark.parametrize("length", [1, 33, 20480, 20481, 100_000])
@pytest.mark.parametrize("index_dtype", INDICES, ids=str)
def test_sizes(device: str, length: int, index_dtype: torch.dtype) -> None:
    rng = np.random.default_rng(length)
    x = random_values(rng, (length,), torch.float32)
    for count in (0, 1, 1000, 9001):
        index = torch.from_numpy(rng.integers(0, length, count)).to(index_dtype)
        y = torch.ops.mxrec.gather_for_rank1(x.to(device), index.to(device))
        np.testing.assert_array_equal(bits(y), bits(x)[index.numpy()])
        grad = torch.from_numpy(rng.standard_normal(count)).float()
        grad_x, grad_index = torch.ops.mxrec.index_select_for_rank1_backward(
            grad.to(device), x.to(device), index.to(device)
        )
        expected = np.zeros(length)
        np.add.at(expected, index.numpy(), grad.double().numpy())
        np.testing.assert_allclose(grad_x.cpu().numpy(), expected, rtol=1e-5, atol=1e-5)
        assert grad_index.dtype == index_dtype and not grad_index.cpu().any() and grad_index.shape == index.shape


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_is_gathered_bit_exactly(device: str, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(2)
    x = random_values(rng, (321,), dtype)
    for shape in ((77,), (5, 6), (2, 0), ()):
        index = torch.from_numpy(np.asarray(rng.integers(0, 321, shape)))
        y = torch.ops.mxrec.gather_for_rank1(x.to(device), index.to(device))
        assert y.shape == index.shape and y.dtype == dtype
        np.testing.assert_array_equal(bits(y), bits(x)[index.numpy()])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_one_hot_row_is_added_in_float(device: str, dtype: torch.dtype) -> None:
    """All entries name one row: in 16 bits the sum would stop at 2048 (256)."""
    index = torch.full((5000,), 3).to(device)
    grad = torch.ones(5000, dtype=dtype).to(device)
    grad_x, _ = torch.ops.mxrec.index_select_for_rank1_backward(grad, torch.zeros(9, dtype=dtype).to(device), index)
    assert grad_x.tolist() == [0, 0, 0, torch.tensor(5000.0).to(dtype).item(), 0, 0, 0, 0, 0]


def test_two_runs_are_equal_bit_by_bit(device: str) -> None:
    rng = np.random.default_rng(5)
    index = torch.from_numpy(rng.zipf(1.2, 60_000) % 500).to(device)
    grad = torch.from_numpy(rng.standard_normal(60_000)).float().to(device)
    runs = [torch.ops.mxrec.index_select_for_rank1_backward(grad, torch.zeros(500, device=device), index)[0]]
    runs.append(torch.ops.mxrec.index_select_for_rank1_backward(grad, torch.zeros(500, device=device), index)[0])
    assert runs[0].cpu().equal(runs[1].cpu())


def test_the_number_of_threads_does_not_matter() -> None:
    rng = np.random.default_rng(6)
    index = torch.from_numpy(rng.integers(0, 1000, 200_000))
    grad = torch.from_numpy(rng.standard_normal(200_000)).float()
    results = []
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(torch.ops.mxrec.index_select_for_rank1_backward(grad, torch.zeros(1000), index)[0])
    finally:
        torch.set_num_threads(threads)
    assert results[0].equal(results[1]) and results[0].equal(results[2])
    assert results[0].equal(torch.zeros(1000).index_add(0, index, grad))  # PyTorch adds in the same order


@settings(max_examples=150, deadline=None)
@given(length=st.integers(1, 50), index=st.lists(st.integers(0, 49), max_size=80), words=st.sampled_from(INDICES))
def test_any_index_on_the_cpu(length: int, index: list[int], words: torch.dtype) -> None:
    entries = torch.tensor([i % length for i in index], dtype=words)
    x = torch.arange(float(length), requires_grad=True)
    y = torch.ops.mxrec.gather_for_rank1(x, entries)
    assert y.tolist() == entries.tolist()
    y.backward(torch.arange(1.0, len(index) + 1))
    expected = np.zeros(length)
    np.add.at(expected, entries.numpy(), np.arange(1.0, len(index) + 1))
    assert x.grad.tolist() == expected.tolist()


def test_derivatives_of_higher_order(device: str) -> None:
    x = torch.arange(1.0, 4.0).to(device).requires_grad_()
    index = torch.tensor([2, 0, 2]).to(device)
    y = torch.ops.mxrec.gather_for_rank1(x, index)
    (first,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [6.0, 0.0, 36.0]


def test_gradcheck_in_double() -> None:
    index = torch.tensor([[2, 0], [2, 1]])
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: torch.ops.mxrec.gather_for_rank1(v, index), (x,))
    assert torch.autograd.gradgradcheck(lambda v: torch.ops.mxrec.gather_for_rank1(v, index), (x,))


def test_non_contiguous_arguments(device: str) -> None:
    x = torch.arange(40.0).to(device)[::3]
    index = torch.arange(12).view(3, 4).to(device).t()
    assert torch.ops.mxrec.gather_for_rank1(x, index).tolist() == (3 * torch.arange(12.0)).view(3, 4).t().tolist()
    grad = torch.arange(12.0).view(3, 4).to(device).t()
    grad_x, _ = torch.ops.mxrec.index_select_for_rank1_backward(grad, x, index)
    assert grad_x.tolist() == [*range(12), 0, 0]


DEVICE = "cpu"


def gather(x: torch.Tensor, index: torch.Tensor) -> object:
    return torch.ops.mxrec.gather_for_rank1(x.to(DEVICE), index.to(DEVICE))


def backward(grad: torch.Tensor, x: torch.Tensor, index: torch.Tensor) -> object:
    return torch.ops.mxrec.index_select_for_rank1_backward(grad.to(DEVICE), x.to(DEVICE), index.to(DEVICE))


X = torch.ones(3)
I = torch.tensor([0, 1])  # noqa: E741
BAD: dict[str, tuple[Callable[[], object], str]] = {
    "x of two dimensions": (
        lambda: gather(X[None], I),
        "gather_for_rank1: x must be 1-D; expected [n], got shape [1, 3]",
    ),
    "float index": (lambda: gather(X, I.float()), "index has an unsupported dtype; expected int32 or int64, got Float"),
    "index too large": (
        lambda: gather(X, torch.tensor([0, 1, 7])),
        "index[2]=7 out of range for x of length 3; expected 0 <= index < 3, got 7",
    ),
    "index below zero": (lambda: gather(X, torch.tensor([-1], dtype=torch.int32)), "index[0]=-1 out of range"),
    "nothing to gather from": (lambda: gather(X[:0], I), "index[0]=0 out of range for x of length 0"),
    "unsupported x": (lambda: gather(X.to(torch.complex128), I), "x has an unsupported dtype; expected one of float16"),
    "index too large in the gradient": (
        lambda: backward(torch.ones(2), X, torch.tensor([0, 3])),
        "index_select_for_rank1_backward: index[1]=3 out of range",
    ),
    "gradient of another shape": (
        lambda: backward(torch.ones(3), X, I),
        "grad differs in shape; expected that of index ([2]), got [3]",
    ),
    "gradient of another dtype": (
        lambda: backward(torch.ones(2).half(), X, I),
        "grad differs in dtype; expected that of x (Float), got Half",
    ),
    "integer x in the gradient": (
        lambda: backward(I, torch.arange(3), I),
        "x has an unsupported dtype; expected a floating or complex type, got Long",
    ),
}


@pytest.mark.usefixtures("each_device")
@pytest.mark.parametrize("case", BAD)
def test_bad_arguments(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXREC_CHECK", "1")  # contents of device tensors are looked at on request
    action, message = BAD[case]
    with pytest.raises(RuntimeError, match=re.escape(message)):
        action()


def on_npu(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [tensor.to("npu:0") for tensor in tensors]


@pytest.mark.parametrize("length", [3, 60_000])
def test_indices_out_of_range_are_zero_on_the_device_and_refused_on_request(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, index = torch.ones(length), torch.tensor([0, -1, length, length - 1, 2**40, -(2**40)])
    assert torch.ops.mxrec.gather_for_rank1(*on_npu(x, index)).tolist() == [1, 0, 0, 1, 0, 0]
    grad = torch.arange(1.0, 7.0)
    grad_x, _ = torch.ops.mxrec.index_select_for_rank1_backward(*on_npu(grad, x, index))
    assert grad_x[0].item() == 1 and grad_x[-1].item() == 4 and grad_x.sum().item() == 5
    monkeypatch.setenv("MXREC_CHECK", "1")
    for call in (
        lambda: torch.ops.mxrec.gather_for_rank1(*on_npu(x, index)),
        lambda: torch.ops.mxrec.index_select_for_rank1_backward(*on_npu(grad, x, index)),
    ):
        with pytest.raises(RuntimeError, match=re.escape(f"index[1]=-1 out of range for x of length {length}")):
            call()


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
@pytest.mark.parametrize("length", [3, 40_000])
def test_gradients_of_types_that_the_cores_do_not_add(device: str, dtype: torch.dtype, length: int) -> None:
    """Exact in the type itself: digits that float32 does not have, and both parts of a complex number."""
    rng = np.random.default_rng(length)
    index = torch.from_numpy(rng.integers(0, length, (20, 5)))
    grad = torch.from_numpy(rng.integers(-(2**40), 2**40, (20, 5)).astype(np.float64)).to(dtype)
    if dtype.is_complex:
        grad = torch.complex(*(torch.from_numpy(rng.integers(-99, 99, (20, 5))).float() for _ in range(2)))
    x = torch.zeros(length, dtype=dtype)
    grad_x, _ = torch.ops.mxrec.index_select_for_rank1_backward(grad.to(device), x.to(device), index.to(device))
    assert grad_x.cpu().equal(x.index_add(0, index.view(-1), grad.view(-1)))
