"""HSTU attention and its gradients against the float64 reference, over shapes, dtypes, masks and layouts."""

import dataclasses

import hstu_reference as reference
import numpy as np
import pytest
import torch
from hstu_cases import TOLERANCE, Case, Problem, assert_close, check
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ops = torch.ops.mxrec
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def dtypes_of(device: str) -> list[torch.dtype]:
    return [*FLOATS, torch.float64] if device == "cpu" else FLOATS


# A block of queries has 64, a tile of keys 96, a subtile of keys 16, a vector 4, 8 or 16, and a product takes up to
# 6, 8 or 16 rows at once: sizes at and beside each.
LENGTHS = st.one_of(
    st.sampled_from([0, 1, 11, 12, 13, 15, 16, 17, 63, 64, 65, 95, 96, 97, 127, 128, 129, 192, 193]),
    st.integers(0, 200),
)


@st.composite
def cases(draw: st.DrawFn, device: str) -> Case:
    small = device != "cpu"
    lengths = draw(st.lists(LENGTHS if not small else st.integers(0, 40), min_size=1, max_size=4))
    mask_type = draw(st.integers(0, 3))
    counts: dict[str, object] = {}
    if mask_type == 0 and draw(st.booleans()):
        target = [draw(st.integers(0, n)) for n in lengths]
        context = [draw(st.integers(0, n - t)) for n, t in zip(lengths, target)]
        counts = {
            "target": draw(st.sampled_from([None, tuple(target)])),
            "context": draw(st.sampled_from([None, tuple(context)])),
            "group": draw(st.sampled_from([0, 1, 2, 3, 5])),
        }
        if counts["group"] in (0, 1):
            counts["window"] = draw(st.sampled_from([0, 1, 7, 64, 1000]))
            counts["min_full"] = draw(st.sampled_from([0, 1, 50]))
        if not counts.get("window") and not counts.get("min_full"):
            counts["distance"] = draw(st.sampled_from([-1, 0, 1, 7, 64, 1000]))
    dims = st.sampled_from([1, 2, 3, 7, 8, 16, 17, 32, 50, 64] + ([] if small else [100, 128]))
    flags = st.tuples(st.booleans(), st.booleans())
    return Case(
        lengths=tuple(lengths),
        heads=draw(st.sampled_from([1, 2, 3, 4])),
        dim=draw(dims),
        value_dim=draw(dims),
        dtype=draw(st.sampled_from(dtypes_of(device))),
        mask_type=mask_type,
        mask_dtype=draw(st.sampled_from([None, torch.bool, torch.uint8, *FLOATS])),
        mask_shape=draw(flags),
        bias=draw(st.one_of(st.none(), flags)),
        spare=draw(st.sampled_from([0, 1, 30])),
        scale=draw(st.sampled_from([0.0, 1 / 64, 1 / 256, -0.05])),
        alpha=draw(st.sampled_from([1.0, 0.125, -0.5])),
        index_dtype=draw(st.sampled_from([torch.int32, torch.int64])),
        seed=draw(st.integers(0, 2**31)),
        **counts,
    )


def test_grid_of_random_problems(device: str) -> None:
    examples = 400 if device == "cpu" else 25

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(cases(device))
    def run(case: Case) -> None:
        if max(case.lengths) > 0:
            check(case, device)

    run()


@pytest.mark.slow
def test_larger_grid_of_random_problems() -> None:
    @settings(
        max_examples=4000, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(cases("cpu"))
    def run(case: Case) -> None:
        if max(case.lengths) > 0:
            check(case, "cpu")

    run()


# Every width of a vector, and the widest heads; Dv differs.
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_head_dimensions(dtype: torch.dtype, device: str) -> None:
    dims = [*range(1, 34), 48, 65, 127, 255, 256, 257, 511, 512] if device == "cpu" else [1, 15, 33, 80, 160, 512]
    for dim in dims:
        lengths = (37, 1) if dim < 128 else (20,)
        # Scores grow with the head: scaled down, as a model does.
        check(Case(lengths, 1, dim, max(1, 600 // (dim + 1)), dtype, alpha=1 / dim, seed=dim), device)


def test_every_context_and_target_of_short_rows(device: str) -> None:
    """All (context, target) of rows of n tokens in one batch; group sizes and windows."""
    n = 9 if device == "cpu" else 6
    pairs = [(c, t) for c in range(n + 1) for t in range(n + 1 - c)]
    context, target = tuple(c for c, _ in pairs), tuple(t for _, t in pairs)
    common = {"lengths": (n,) * len(pairs), "heads": 1, "dim": 4, "value_dim": 4, "scale": 0.25, "context": context}
    for group in (0, 1, 2, 3, 4):
        check(Case(**common, target=target, group=group), device)
    for window, min_full in ((1, 0), (2, 1), (4, 3)):
        check(Case(**common, target=target, window=window, min_full=min_full), device)
    for distance, group in ((0, 1), (1, 1), (3, 2), (5, 3), (n, 2)):
        check(Case(**common, target=target, distance=distance, group=group), device)


def test_contexts_and_targets_across_tiles(device: str) -> None:
    lengths, context, target = (
        ((700, 400, 333), (300, 0, 1), (257, 400, 130)) if device == "cpu" else ((150,), (70,), (33,))
    )
    for group in (1, 3, 100):
        check(Case(lengths, 1, 16, 16, context=context, target=target, group=group, seed=group), device)
    check(Case(lengths, 1, 16, 16, context=context, target=target, window=100, min_full=20), device)
    for distance in (0, 31, 200):
        check(Case(lengths, 1, 16, 16, context=context, target=target, distance=distance, group=40), device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_skewed_lengths(dtype: torch.dtype, device: str) -> None:
    lengths = (700, *[1] * 31) if device == "cpu" else (130, *[1] * 7)
    for mask_type in range(3):
        check(Case(lengths, 2, 16, 24, dtype, mask_type=mask_type), device)


@pytest.mark.parametrize("mask_type", range(4))
@pytest.mark.parametrize("size", [(1, 1), (3, 17), (2, 130)])
def test_normal_layout(mask_type: int, size: tuple[int, int], device: str) -> None:
    batch, length = size if device == "cpu" else (size[0], min(size[1], 40))
    case = Case((length,) * batch, 2, 12, 20, mask_type=mask_type, bias=(True, False))
    problem = Problem(case)
    shaped = [x.view(batch, length, 2, -1).to(device) for x in (problem.q, problem.k, problem.v, problem.grad)]
    mask, bias = (None if x is None else x.to(device) for x in (problem.mask, problem.bias))
    output = ops.hstu_dense(*shaped[:3], mask, bias, mask_type, length)
    grads = ops.hstu_dense_backward(shaped[3], *shaped[:3], mask, bias, "normal", mask_type, 0)
    expected = problem.expected()
    for actual, wanted in zip((output, *grads[:3]), expected):
        assert actual.shape == (batch, length, 2, wanted.shape[-1]) and actual.is_contiguous()
        assert_close(actual.cpu().view(wanted.shape), wanted, case.dtype)
    assert_close(grads[3].cpu(), expected[4], case.dtype, "dbias", terms=batch * 2)


def test_arguments_of_any_stride(device: str) -> None:
    case = Case((30, 12), 3, 8, 8, mask_type=3, bias=(True, True))
    problem = Problem(case)

    def strided(tensor: torch.Tensor) -> torch.Tensor:
        wide = torch.stack([tensor, tensor + 9], -1).to(device)
        assert not wide[..., 0].is_contiguous()
        return wide[..., 0]

    q, k, v, grad, mask, bias = map(
        strided, (problem.q, problem.k, problem.v, problem.grad, problem.mask, problem.bias)
    )
    offsets = torch.tensor([0, -1, 30, -1, 42, -1]).to(device)[::2]
    output = ops.hstu_jagged(q, k, v, mask, bias, 3, 0, 0.0, offsets)
    grads = ops.hstu_jagged_backward(grad, q, k, v, mask, bias, 3, 0, 0.0, offsets)
    for actual, expected in zip((output, *grads), problem.expected()):
        assert actual.is_contiguous()
        assert_close(actual.cpu(), expected, case.dtype)


def test_expanded_gradient(device: str) -> None:
    problem = Problem(Case((9, 4)))
    inputs = [x.clone().to(device).requires_grad_() for x in (problem.q, problem.k, problem.v)]
    ops.hstu_dense(*inputs, layout="jagged", seqOffset=[0, 9, 13]).sum().backward()  # stride 0
    expected = reference.gradients(problem.rows(), np.ones((13, 2, 8)))
    for x, wanted in zip(inputs, expected):
        assert_close(x.grad.cpu(), wanted, torch.float32)


def test_empty_problems(device: str) -> None:
    def zeros(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, device=device)

    for shape in ((0, 3, 2, 4), (2, 0, 2, 4), (2, 3, 0, 4)):
        x = zeros(*shape).requires_grad_()
        output = ops.hstu_dense(x, x, x)
        output.sum().backward()
        assert output.shape == x.grad.shape == shape
    x = zeros(0, 2, 4).requires_grad_()
    for offsets in ([0], [0, 0, 0]):
        output = ops.hstu_dense(x, x, x, layout="jagged", seqOffset=offsets)
        (grad,) = torch.autograd.grad(output.sum(), x)
        assert output.shape == grad.shape == (0, 2, 4)
    bias = zeros(2, 2, 5, 5) + 1
    offsets = torch.tensor([0, 0, 0]).to(device)
    grads = ops.hstu_jagged_backward(x.detach(), x.detach(), x.detach(), x.detach(), None, bias, seq_offset=offsets)
    assert grads[3].shape == (2, 2, 5, 5) and not grads[3].any()
    # Keys without queries: their gradients are 0, not left over.
    q, k = zeros(0, 2, 4), (zeros(6, 2, 4) + 1).requires_grad_()
    output = ops.hstu_varlen(
        q, k, k, seqOffset=torch.tensor([0, 0]).to(device), seqOffsetK=torch.tensor([0, 6]).to(device)
    )
    (grad,) = torch.autograd.grad(output.sum(), k)
    assert output.shape == (0, 2, 4) and not grad.any()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_large_scores_neither_overflow_nor_vanish(dtype: torch.dtype, device: str) -> None:
    """s = -1e4 gives exactly 0 and s = 1e4 gives s; so do their gradients, 0 and 1."""
    q = torch.tensor([[-100.0], [100.0], [-88.0], [-1000.0]]).repeat_interleave(2, 0).view(-1, 1, 1).to(dtype)
    k, v = torch.full_like(q, 100.0), torch.ones_like(q)
    offsets = [0, 2, 4, 6, 8]
    settings = (None, None, 2, 0, 2**-16, "jagged", offsets)
    output = ops.hstu_dense(q.to(device), k.to(device), v.to(device), *settings).cpu().flatten().float()
    expected = 2 * q.flatten().float() * 100 * 2**-16
    assert output[[0, 1, 4, 5, 6, 7]].abs().max() == 0
    torch.testing.assert_close(output[2:4], expected[2:4], rtol=TOLERANCE[dtype], atol=0)
    grads = ops.hstu_dense_backward(
        v.to(device), q.to(device), k.to(device), v.to(device), None, None, "jagged", *settings[2:5], offsets
    )
    for grad in grads[:3]:
        values = grad.cpu().flatten()
        assert values.isfinite().all() and values[[0, 1, 4, 5, 6, 7]].abs().max() == 0 and (values[2:4] != 0).all()


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_what_a_mask_hides_does_not_leak(value: float, dtype: torch.dtype, device: str) -> None:
    """A key that is not finite spoils the queries that see it and no other; likewise for a bias and another row."""
    lengths = (70, 20)
    problem = Problem(Case(lengths, 1, 8, 8, dtype))
    clean = problem.run(device)[0]
    problem.k[40] = value
    output = problem.run(device)[0]
    assert output[:40].equal(clean[:40]) and output[70:].equal(clean[70:])
    assert not output[40:70].isfinite().all(-1).any()

    biased = Problem(Case(lengths, 1, 8, 8, dtype, bias=(True, True)))
    clean = biased.run(device)[0]
    biased.bias[:, :, 10, 11:] = value  # above the diagonal
    output = biased.run(device)[0]
    assert output.equal(clean)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_two_runs_give_the_same_bits(dtype: torch.dtype, device: str) -> None:
    case = Case((150, 3, 80) if device == "cpu" else (40, 3), 2, 16, 16, dtype, bias=(False, True))
    first, second = (Problem(case).run(device) for _ in range(2))
    assert all(a.equal(b) for a, b in zip(first, second))


def test_maximum_length_sets_the_scale_only(device: str) -> None:
    problem = Problem(Case((30, 12), 2, 8, 8))
    q, k, v = (x.to(device) for x in (problem.q, problem.k, problem.v))
    longer = ops.hstu_dense(q, k, v, None, None, 0, 60, 0.0, "jagged", [0, 30, 42])
    expected = reference.outputs([dataclasses.replace(row, scale=1 / 60) for row in problem.rows()])
    assert_close(longer.cpu(), expected, torch.float32)
