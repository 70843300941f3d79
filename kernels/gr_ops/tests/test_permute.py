"""permute_2D_sparse_data and permute_1D_sparse_data against the formula of docs/operators.md."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from moves import DTYPES, bits, random_values

SMALL = torch.tensor([[2, 3], [1, 4], [0, 2]])
VALUES = torch.arange(10, 130, 10)


@pytest.fixture(params=["fbgemm", "mxrec"])
def ops(request: pytest.FixtureRequest):
    return getattr(torch.ops, request.param)


def random_case(
    rng: np.random.Generator, features: int, batch: int | None, copies: int, longest: int
) -> tuple[np.ndarray, np.ndarray]:
    """(permute, lengths): repeats and omissions among the entries, empty bags among the lengths."""
    shape = (features,) if batch is None else (features, batch)
    lengths = rng.integers(0, longest + 1, shape) * (rng.random(shape) > 0.2)
    return rng.integers(0, features, copies) if features else np.zeros(0, np.int64), lengths.astype(np.int64)


def test_document_example(ops, device: str) -> None:
    lengths, permute = torch.tensor([2, 3, 1, 4]), torch.tensor([3, 1, 0, 2])
    arguments = (permute, lengths, torch.arange(10, 101, 10), torch.arange(1.0, 11.0))
    result = ops.permute_2D_sparse_data(*(a.to(device) for a in arguments))
    assert [r.tolist() for r in result] == [
        [4, 3, 2, 1],
        [70, 80, 90, 100, 30, 40, 50, 10, 20, 60],
        [7, 8, 9, 10, 3, 4, 5, 1, 2, 6],
    ]
    assert result[0].dtype == torch.int64 and result[2].dtype == torch.float32


@pytest.mark.parametrize(
    ("permute", "lengths", "values"),
    [
        ([2, 0, 1], [[0, 2], [2, 3], [1, 4]], [110, 120, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]),
        (
            [0, 0, 2, 1],
            [[2, 3], [2, 3], [0, 2], [1, 4]],
            [10, 20, 30, 40, 50, 10, 20, 30, 40, 50, 110, 120, 60, 70, 80, 90, 100],
        ),
        ([1], [[1, 4]], [60, 70, 80, 90, 100]),
        ([], [], []),
    ],
)
def test_golden(ops, device: str, permute: list[int], lengths: list[list[int]], values: list[int]) -> None:
    entries = torch.tensor(permute, dtype=torch.int64).to(device)
    result = ops.permute_2D_sparse_data(entries, SMALL.to(device), VALUES.to(device))
    assert result[0].shape == (len(permute), 2) and result[0].tolist() == lengths
    assert result[1].tolist() == values and result[2] is None


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("features", [1, 2, 17, 500])
def test_grid(device: str, features: int, index_dtype: torch.dtype) -> None:
    rng = np.random.default_rng(features)
    for batch in (None, 0, 1, 3, 128):
        for copies in (0, features // 2, features, features + 5):
            for longest in (0, 20) if features < 500 and (batch or 1) < 128 else (2,):
                permute, lengths = random_case(rng, features, batch, copies, longest)
                rows = int(lengths.sum())
                values = random_values(rng, (rows,), torch.float32)
                weights = random_values(rng, (rows,), torch.float16 if copies % 2 else torch.float32)
                total = len(reference.permute_rows(permute, lengths, values.numpy()))
                got = torch.ops.mxrec.permute_2D_sparse_data(
                    torch.from_numpy(permute).to(index_dtype).to(device),
                    torch.from_numpy(lengths).to(index_dtype).to(device),
                    values.to(device),
                    weights.to(device),
                    total if copies % 3 else None,
                )
                assert got[0].cpu().equal(torch.from_numpy(lengths[permute]).to(index_dtype))
                np.testing.assert_array_equal(bits(got[1]), reference.permute_rows(permute, lengths, bits(values)))
                np.testing.assert_array_equal(bits(got[2]), reference.permute_rows(permute, lengths, bits(weights)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_moves_bit_exactly(device: str, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(4)
    permute, lengths = random_case(rng, 9, 4, 12, 6)
    moved = [torch.from_numpy(a).to(device) for a in (permute, lengths)]
    for trailing in ((), (3,), (2, 5), (0,)):
        values = random_values(rng, (int(lengths.sum()), *trailing), dtype)
        got = torch.ops.mxrec.permute_2D_sparse_data(*moved, values.to(device), values.to(device))
        for result in got[1:]:
            assert result.dtype == dtype and result.is_contiguous()
            np.testing.assert_array_equal(bits(result), reference.permute_rows(permute, lengths, bits(values)))


def test_one_huge_feature(device: str) -> None:
    lengths = np.array([[1], [300000], [0], [7]])
    values = torch.arange(300008)
    permute = [1, 0, 3]
    got = torch.ops.mxrec.permute_2D_sparse_data(
        torch.tensor(permute).to(device), torch.from_numpy(lengths).to(device), values.to(device)
    )
    np.testing.assert_array_equal(got[1].cpu().numpy(), reference.permute_rows(permute, lengths, values.numpy()))


def test_one_dimensional_form(ops, device: str) -> None:
    rng = np.random.default_rng(8)
    permute, lengths = random_case(rng, 2000, None, 3000, 4)
    values = random_values(rng, (int(lengths.sum()),), torch.int64)
    arguments = [torch.from_numpy(a).to(device) for a in (permute, lengths)]
    got = ops.permute_1D_sparse_data(*arguments, values.to(device))
    assert got[0].cpu().equal(torch.from_numpy(lengths[permute])) and got[2] is None
    np.testing.assert_array_equal(got[1].cpu().numpy(), reference.permute_rows(permute, lengths, values.numpy()))


def test_non_contiguous_arguments(device: str) -> None:
    rng = np.random.default_rng(6)
    permute, lengths = random_case(rng, 5, 6, 5, 4)
    values = random_values(rng, (3, int(lengths.sum()) + 1), torch.float32)
    got = torch.ops.mxrec.permute_2D_sparse_data(
        torch.from_numpy(np.repeat(permute, 2)).to(device)[::2],
        torch.from_numpy(np.ascontiguousarray(lengths.T)).to(device).t(),
        values.to(device).t()[1:, :2],
    )
    assert got[0].cpu().equal(torch.from_numpy(lengths[permute]))
    expected = reference.permute_rows(permute, lengths, values.t()[1:, :2].numpy())
    np.testing.assert_array_equal(bits(got[1]), np.ascontiguousarray(expected).view(np.int32))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_structure_on_the_cpu(data: st.DataObject) -> None:
    features = data.draw(st.integers(0, 6))
    batch = data.draw(st.sampled_from([None, 0, 1, 2, 5]))
    shape = (features,) if batch is None else (features, batch)
    size = int(np.prod(shape))
    lengths = np.array(data.draw(st.lists(st.integers(0, 4), min_size=size, max_size=size)), np.int64).reshape(shape)
    permute = data.draw(st.lists(st.integers(0, max(features - 1, 0)), max_size=8 if features else 0))
    inner = data.draw(st.integers(1, 3))
    values = torch.arange(float(int(lengths.sum()) * inner)).view(int(lengths.sum()), inner).requires_grad_()
    got = torch.ops.mxrec.permute_2D_sparse_data(
        torch.tensor(permute, dtype=torch.int32), torch.from_numpy(lengths), values
    )
    expected = reference.permute_rows(permute, lengths, values.detach().numpy())
    assert got[0].numpy().tolist() == lengths[permute].tolist()
    np.testing.assert_array_equal(got[1].detach().numpy(), expected)
    weight = torch.arange(1.0, got[1].numel() + 1).view(got[1].shape)
    got[1].backward(weight)
    np.testing.assert_array_equal(values.grad.numpy(), reference.permute_rows_grad(permute, lengths, weight.numpy()))


@pytest.mark.parametrize(
    ("permute", "expected"),
    [
        ([2, 0, 1], [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 1]),
        ([0, 0], [5, 7, 9, 11, 13, 0, 0, 0, 0, 0, 0, 0]),
        ([1], [0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0]),
        ([], [0] * 12),
    ],
)
def test_gradient_of_values_and_weights(ops, device: str, permute: list[int], expected: list[float]) -> None:
    values, weights = (torch.zeros(12, device=device, requires_grad=True) for _ in range(2))
    entries = torch.tensor(permute, dtype=torch.int64).to(device)
    lengths, out, out_weights = ops.permute_2D_sparse_data(entries, SMALL.to(device), values, weights)
    assert not lengths.requires_grad
    grad = torch.arange(float(out.numel()))
    torch.autograd.backward([out, out_weights], [grad.to(device), 2 * grad.to(device)])
    assert values.grad.tolist() == expected
    assert weights.grad.tolist() == [2 * e for e in expected]


@pytest.mark.parametrize(("dtype", "unit"), [(torch.float32, 2**-24), (torch.float16, 2**-11), (torch.bfloat16, 2**-8)])
def test_repeated_rows_are_added_in_float_and_rounded_once(device: str, dtype: torch.dtype, unit: float) -> None:
    rng = np.random.default_rng(3)
    permute, lengths = random_case(rng, 12, 3, 60, 9)
    rows = int(lengths.sum())
    for inner in (1, 5, 700):
        out_rows = len(reference.permute_rows(permute, lengths, np.zeros(rows)))
        grad = torch.from_numpy(rng.standard_normal((out_rows, inner))).to(dtype)
        got = torch.ops.mxrec.permute_sparse_data_backward(
            torch.from_numpy(permute).to(device), torch.from_numpy(lengths).to(device), grad.to(device), rows
        )
        expected = reference.permute_rows_grad(permute, lengths, grad.double().numpy())
        # one rounding to the type, and the float32 sum of up to 60 terms
        np.testing.assert_allclose(got.cpu().double().numpy(), expected, rtol=unit, atol=1e-5)
        assert got.dtype == dtype


def test_gradient_of_the_gradient(ops, device: str) -> None:
    values = torch.arange(12.0).to(device).requires_grad_()
    permute = torch.tensor([0, 0, 2]).to(device)
    out = ops.permute_2D_sparse_data(permute, SMALL.to(device), values)[1]
    (first,) = torch.autograd.grad((out**3).sum(), values, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), values)
    copies = torch.tensor([2.0] * 5 + [0.0] * 5 + [1.0] * 2)
    assert second.cpu().equal(copies * 6 * torch.arange(12.0))


def test_gradcheck_in_double() -> None:
    permute, lengths = torch.tensor([1, 1, 0]), torch.tensor([[1, 2], [2, 0], [1, 1]])
    values = torch.randn(7, 2, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(7, dtype=torch.float64, requires_grad=True)

    def both(v: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.ops.mxrec.permute_2D_sparse_data(permute, lengths, v, w)[1:]

    assert torch.autograd.gradcheck(both, (values, weights))
    assert torch.autograd.gradgradcheck(both, (values, weights))


def test_only_weights_require_a_gradient(device: str) -> None:
    weights = torch.ones(12, device=device, requires_grad=True)
    result = torch.ops.mxrec.permute_2D_sparse_data(
        torch.tensor([1, 1]).to(device), SMALL.to(device), VALUES.to(device), weights
    )
    assert not result[1].requires_grad
    result[2].sum().backward()
    assert weights.grad.tolist() == [0] * 5 + [2] * 5 + [0] * 2


DEVICE = "cpu"


def placed(*arguments: object) -> list[object]:
    return [a.to(DEVICE) if isinstance(a, torch.Tensor) else a for a in arguments]


def call(permute=(2, 0, 1), lengths=SMALL, values=VALUES, weights=None, total=None, op="permute_2D_sparse_data"):
    entries = permute if isinstance(permute, torch.Tensor) else torch.tensor(permute)
    return getattr(torch.ops.mxrec, op)(*placed(entries, lengths, values, weights, total))


def backward(permute: list[int], lengths: torch.Tensor, grad: torch.Tensor, total: int) -> torch.Tensor:
    return torch.ops.mxrec.permute_sparse_data_backward(*placed(torch.tensor(permute), lengths, grad, total))


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "permute of two dimensions": (lambda: call([[0]]), "permute must be 1-D; expected [P], got shape [1, 1]"),
    "float permute": (lambda: call([0.0]), "permute has an unsupported dtype; expected int32 or int64, got Float"),
    "short lengths": (lambda: call(lengths=SMALL.short()), "lengths has an unsupported dtype; expected int32 or int64"),
    "index too large": (lambda: call([0, 1, 5]), "permute[2]=5 out of range for 3 features"),
    "index below zero": (lambda: call([0, -1]), "permute[1]=-1 out of range for 3 features"),
    "no features": (lambda: call([0], SMALL[:0], VALUES[:0]), "permute[0]=0 out of range for 0 features"),
    "lengths of three dimensions": (
        lambda: call(lengths=SMALL[None]),
        "lengths must be 1-D or 2-D; expected [T] or [T, B], got shape [1, 3, 2]",
    ),
    "1-D form, lengths of two dimensions": (
        lambda: call(op="permute_1D_sparse_data"),
        "permute_1D_sparse_data: lengths must be 1-D; expected [T], got shape [3, 2]",
    ),
    "negative length": (
        lambda: call(lengths=torch.tensor([[2, 3], [1, -4], [0, 2]])),
        "lengths holds a negative value; expected lengths >= 0, got lengths[1, 1]=-4",
    ),
    "absurd length": (
        lambda: call(lengths=torch.tensor([2**62, 2**62, 2**62]) * 2),
        "lengths holds a",
    ),
    "values too short": (
        lambda: call(values=VALUES[:11]),
        "values has 11 rows but lengths add up to 12; expected values.size(0) == lengths.sum(), got 11",
    ),
    "values too long": (lambda: call(values=torch.arange(13)), "values has 13 rows but lengths add up to 12"),
    "values without dimensions": (lambda: call(values=torch.tensor(1)), "values has no dimensions"),
    "weights of another length": (
        lambda: call(weights=torch.ones(11)),
        "weights has 11 rows but values has 12; expected weights.size(0) == values.size(0), got 11",
    ),
    "sum too small": (
        lambda: call(total=11),
        "permuted_lengths_sum is wrong; expected the sum of the permuted lengths (12), got 11",
    ),
    "sum too large": (lambda: call(total=13), "permuted_lengths_sum is wrong; expected"),
    "sum below zero": (lambda: call(total=-1), "permuted_lengths_sum is negative; expected a value >= 0, got -1"),
    "unsupported values": (
        lambda: call(values=torch.zeros(12, dtype=torch.complex128)),
        "values has an unsupported dtype; expected one of float16",
    ),
    "gradient of the wrong size": (
        lambda: backward([0], SMALL, torch.ones(4), 12),
        "grad has 4 rows but the permuted lengths add up to 5",
    ),
    "integer gradient": (
        lambda: backward([0], SMALL, torch.arange(5), 12),
        "grad has an unsupported dtype; expected a floating or complex type, got Long",
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


@pytest.mark.parametrize("total", [11, 13])
def test_a_wrong_total_on_the_device(total: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut short or filled with zeros; an error where data is checked."""
    arguments = on_npu(torch.tensor([2, 0, 1]), SMALL, VALUES)
    whole = torch.ops.mxrec.permute_2D_sparse_data(*arguments)[1].cpu()
    got = torch.ops.mxrec.permute_2D_sparse_data(*arguments, None, total)[1].cpu()
    assert got.equal(torch.cat([whole, torch.zeros(1, dtype=whole.dtype)])[:total])
    monkeypatch.setenv("MXREC_CHECK", "1")
    with pytest.raises(RuntimeError, match="permuted_lengths_sum is wrong"):
        torch.ops.mxrec.permute_2D_sparse_data(*arguments, None, total)


def test_lengths_on_the_device_that_add_up_to_less_than_nothing() -> None:
    """The sum that the host reads anyway: the CPU's words, not the allocator's of a negative dimension."""
    with pytest.raises(RuntimeError, match=r"permute_1D_sparse_data: lengths holds a negative .* got lengths\[1\]=-3"):
        torch.ops.mxrec.permute_1D_sparse_data(*on_npu(torch.tensor([1]), torch.tensor([2, -3, 5]), torch.ones(4)))


def test_unchecked_device_data_stays_inside_memory() -> None:
    values = torch.arange(1.0, 13.0)
    for permute, lengths in (
        ([0, 9, -3], SMALL),
        ([2, 0, 1], torch.tensor([[2, 900], [1, 4], [0, 2]])),
        ([2, 0, 1], torch.tensor([[2, -900], [1, 4], [0, 2]])),
        ([1, 1, 1], SMALL * 5),
    ):
        got = torch.ops.mxrec.permute_2D_sparse_data(*on_npu(torch.tensor(permute), lengths, values), None, 12)
        assert set(got[1].cpu().tolist()) <= {0.0, *values.tolist()}
        grad = torch.ops.mxrec.permute_sparse_data_backward(*on_npu(torch.tensor(permute), lengths, values), 12)
        assert grad.shape == (12,) and grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
@pytest.mark.parametrize("entries", [[], [2, 0, 1], [1], [0, 0, 0, 2]])
def test_gradients_of_types_that_the_cores_do_not_add(device: str, dtype: torch.dtype, entries: list[int]) -> None:
    """Exact in the type itself: digits that float32 does not have, and both parts of a complex number."""
    rng = np.random.default_rng(len(entries))
    rows = int(SMALL[entries].sum()) if entries else 0
    grad = torch.from_numpy(rng.integers(-(2**40), 2**40, (rows, 3)).astype(np.float64)).to(dtype)
    if dtype.is_complex:
        grad = torch.complex(*(torch.from_numpy(rng.integers(-99, 99, (rows, 3))).float() for _ in range(2)))
    permute = torch.tensor(entries, dtype=torch.int64)
    got = torch.ops.mxrec.permute_sparse_data_backward(permute.to(device), SMALL.to(device), grad.to(device), 12)
    np.testing.assert_array_equal(got.cpu().numpy(), reference.permute_rows_grad(entries, SMALL.numpy(), grad.numpy()))
