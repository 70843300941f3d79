"""The operators around HSTU's attention against their formulas in float64 PyTorch, one operation after the other."""

import os

import pytest
import torch
import torch.nn.functional as F
from test_hstu_cpu import instruction_sets

EPS = 1e-6
# 1: alone; 63, 64, 65, 129: around a block of tokens; 500: several blocks, and shares of two threads.
TOKENS = [0, 1, 63, 64, 65, 129, 500]
# Widths below, at and above whole vectors of any instruction set; more than one panel of columns; several parts in a
# vector, and half of the last one; rows of float32 that tiles multiply, and half of a tile.
PROJECTIONS = [
    (1, (1,)),
    (8, (8, 8, 4, 4)),
    (16, (16, 16)),
    (20, (7, 2, 3, 9, 16)),
    (50, (50, 50, 50, 50)),
    (67, (40, 3, 130, 5)),
    (130, (40, 90, 3)),
]
GATES = [(1, 1), (6, 8), (16, 16), (50, 50), (130, 67), (144, 176)]
TOLERANCE = {torch.float32: 3e-6, torch.float64: 1e-13}
ROUNDED = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}  # a half of the last bit, of 1 or more


def norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=EPS)


def largest(*tensors: torch.Tensor) -> float:
    return max((float(tensor.abs().max()) for tensor in tensors if tensor.numel()), default=0.0)


def assert_close(given: torch.Tensor, expected: torch.Tensor, terms: float | None = None) -> None:
    """``terms``: size of what the result is summed from, where its terms cancel; else its own size."""
    assert given.shape == expected.shape
    if expected.numel():
        limit = TOLERANCE[given.dtype] * (terms or largest(expected)) * (1 + len(expected) ** 0.5)
        assert float((given.double() - expected).abs().max()) <= limit


def tensors(dtype: torch.dtype, *shapes: tuple[int, ...]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Leaves of this type, and the same in float64."""
    generator = torch.Generator().manual_seed(sum(map(sum, shapes)))
    ours = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]
    return [x.requires_grad_() for x in ours], [x.detach().double().requires_grad_() for x in ours]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("dim", "split"), PROJECTIONS)
@pytest.mark.parametrize("tokens", TOKENS)
def test_projection(tokens: int, dim: int, split: tuple[int, ...], dtype: torch.dtype) -> None:
    (x, weight), (x64, weight64) = tensors(dtype, (tokens, dim), (dim, sum(split)))
    parts = torch.ops.mxrec.hstu_projection(x, weight, split, EPS)
    expected = F.silu(norm(x64) @ weight64).split(split, dim=1)
    factors = [torch.randn(part.shape, dtype=torch.float64) for part in expected]
    sum((part.double() * factor).sum() for part, factor in zip(parts, factors)).backward()
    sum((part * factor).sum() for part, factor in zip(expected, factors)).backward()
    for given, wanted in zip(parts, expected):
        assert given.is_contiguous()
        assert_close(given.detach(), wanted.detach())
    terms = largest(x64.grad, weight64.grad)  # see test_gated_output
    assert_close(x.grad, x64.grad, terms)
    assert_close(weight.grad, weight64.grad, terms)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("width", "dim"), GATES)
@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("dropped", [False, True])
def test_gated_output(tokens: int, width: int, dim: int, dtype: torch.dtype, dropped: bool) -> None:
    shapes = (tokens, width), (tokens, width), (tokens, dim), (dim, width), (dim,)
    ours, wide = tensors(dtype, *shapes)
    keep, scale = (torch.rand(tokens, width) < 0.7, 1 / 0.7) if dropped else (None, 1.0)
    out = torch.ops.mxrec.hstu_gated_output(*ours, keep, scale, EPS)
    attended, u, x, weight, bias = wide
    gated = norm(attended) * u * (keep.double() * scale if dropped else 1)
    expected = x + F.linear(gated, weight, bias)
    factor = torch.randn_like(expected)
    (out.double() * factor).sum().backward()
    (expected * factor).sum().backward()
    assert_close(out.detach(), expected.detach())
    # The norm's backward takes the mean and the projection on the rows away: of one row little may be left.
    terms = largest(*(tensor.grad for tensor in wide))
    for given, wanted in zip(ours, wide):
        assert_close(given.grad, wanted.grad, terms)


def test_kept_elements_are_as_many_as_asked_and_independent() -> None:
    like, p = torch.empty(1000, 1000), 0.3
    keep = torch.ops.mxrec.hstu_keep(like, p, 5)
    assert keep.shape == like.shape and keep.dtype == torch.bool
    deviation = (p * (1 - p) / keep.numel()) ** 0.5
    # Five standard deviations: of the whole, of neighbours, of rows and of columns together, of two seeds together.
    others = [torch.ops.mxrec.hstu_keep(like, p, seed) for seed in (6, 5 + 2**32, 5 - 2**40)]
    pairs = [(keep[:, 1:], keep[:, :-1]), (keep[1:], keep[:-1]), *((keep, other) for other in others)]
    assert abs(float(keep.double().mean()) - (1 - p)) < 5 * deviation
    for a, b in pairs:
        assert abs(float((a & b).double().mean()) - (1 - p) ** 2) < 5 * deviation
    for dim in (0, 1):
        assert float((keep.double().mean(dim) - (1 - p)).abs().max()) < 5 * (p * (1 - p) / 1000) ** 0.5


def test_kept_elements_follow_from_seed_and_place() -> None:
    whole = torch.ops.mxrec.hstu_keep(torch.empty(50_000, 3), 0.5, 9)
    torch.set_num_threads(1)
    assert torch.ops.mxrec.hstu_keep(torch.empty(150_000), 0.5, 9).equal(whole.flatten())
    assert bool(torch.ops.mxrec.hstu_keep(torch.empty(1000), 0.0, 9).all())
    with pytest.raises(RuntimeError, match=r"hstu_keep: p must be in \[0, 1\), got 1"):
        torch.ops.mxrec.hstu_keep(torch.empty(3), 1.0, 9)


def test_inputs_need_not_be_contiguous() -> None:
    (x, weight), (x64, weight64) = tensors(torch.float64, (50, 60), (32, 50))
    parts = torch.ops.mxrec.hstu_projection(x.T, weight.T, (20, 12), EPS)
    expected = F.silu(norm(x64.T) @ weight64.T).split((20, 12), dim=1)
    sum(part[:, ::2].sum() for part in parts).backward()
    sum(part[:, ::2].sum() for part in expected).backward()
    assert_close(x.grad, x64.grad)
    assert_close(weight.grad, weight64.grad)


def assert_rounded_once(given: torch.Tensor, expected: torch.Tensor, terms: float, within: float = 1e-4) -> None:
    """Sums of 16 bits of each term, and the result to the nearest number of its type."""
    limit = ROUNDED[given.dtype] * expected.abs() + within * terms
    assert bool(((given.double() - expected).abs() <= limit).all())


@pytest.mark.parametrize("dtype", ROUNDED, ids=str)
@pytest.mark.parametrize("tokens", [1, 129, 500])
@pytest.mark.parametrize("dim", [50, 128])
def test_16_bits_are_rounded_once(tokens: int, dim: int, dtype: torch.dtype) -> None:
    (x, weight), (x64, weight64) = tensors(dtype, (tokens, dim), (dim, 3 * dim + 5))
    split = (dim, dim + 5, dim)
    parts = torch.ops.mxrec.hstu_projection(x, weight, split, EPS)
    expected = F.silu(norm(x64) @ weight64).split(split, dim=1)
    factors = [torch.randn_like(part) for part in parts]
    torch.autograd.backward(parts, factors)
    torch.autograd.backward(expected, [factor.double() for factor in factors])
    for given, wanted in zip(parts, expected):
        assert_rounded_once(given, wanted, largest(wanted))
    terms = largest(x64.grad, weight64.grad)
    # Pairs of bfloat16 multiply two factors of 8 bits each, as PyTorch does.
    pairs = dtype == torch.bfloat16 and os.environ.get("GR_OPS_ISA", instruction_sets()[-1]) == "avx512_bf16"
    within = 2.0**-8 if pairs else 1e-4
    assert_rounded_once(x.grad, x64.grad, terms, within)
    assert_rounded_once(weight.grad, weight64.grad, terms, within)

    keep = torch.rand(tokens, dim) < 0.7
    ours, wide = tensors(dtype, (tokens, dim), (tokens, dim), (tokens, 2 * dim + 5), (2 * dim + 5, dim), (2 * dim + 5,))
    out = torch.ops.mxrec.hstu_gated_output(*ours, keep, 1 / 0.7, EPS)
    attended, u, rows, output, bias = wide
    wanted = rows + F.linear(norm(attended) * u * keep.double() / 0.7, output, bias)
    factor = torch.randn_like(out)
    out.backward(factor)
    wanted.backward(factor.double())
    assert_rounded_once(out, wanted, largest(wanted))
    terms = largest(*(tensor.grad for tensor in wide))
    for mine, other in zip(ours, wide):
        assert_rounded_once(mine.grad, other.grad, terms)


@pytest.mark.parametrize("isa", instruction_sets())
def test_each_instruction_set(isa: str, fresh_process) -> None:
    done = fresh_process(
        """
        import torch, torch.nn.functional as F
        import gr_ops
        torch.manual_seed(0)
        limits = {torch.float32: 2e-5, torch.float64: 1e-12, torch.float16: 5e-3, torch.bfloat16: 4e-2}
        for dtype, dim, width in ((dtype, *sizes) for dtype in limits for sizes in ((50, 40), (130, 129))):
            def rows(*shape):
                return torch.randn(shape, dtype=torch.float64).to(dtype)
            x, weight, w, b = rows(101, dim), rows(dim, 60 + width).mul_(dim**-0.5), rows(dim, width), rows(dim)
            keep = torch.rand(101, width) < 0.5
            x.requires_grad_(), weight.requires_grad_()
            v, u = torch.ops.mxrec.hstu_projection(x, weight, (60, width), 1e-6)
            out = torch.ops.mxrec.hstu_gated_output(u, u, x, w, b, keep, 2.0, 1e-6)
            given = torch.autograd.grad(out.double().sum() + v.double().sum(), (x, weight))
            X, W = x.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
            V, U = F.silu(F.layer_norm(X, (dim,), eps=1e-6) @ W).split((60, width), 1)
            want = X + F.linear(F.layer_norm(U, (width,), eps=1e-6) * U * keep * 2, w.double(), b.double())
            for a, e in zip((out, *given), (want, *torch.autograd.grad(want.sum() + V.sum(), (X, W)))):
                error = float((a.double() - e).abs().max())
                assert error <= limits[dtype] * float(e.abs().max()), (dtype, dim, error)
        """,
        GR_OPS_ISA=isa,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",  # the CPU's kernels alone
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("isa", instruction_sets())
def test_rows_far_from_zero_and_of_no_number(isa: str, fresh_process) -> None:
    """Their means are large beside what is left of them; what is no number stays in its row."""
    done = fresh_process(
        """
        import torch, torch.nn.functional as F
        import gr_ops
        torch.manual_seed(0)
        x, grad = (torch.randn(70, 128, dtype=torch.float64) for _ in range(2))
        weight = torch.randn(128, 96, dtype=torch.float64).mul_(128**-0.5).bfloat16()
        def run(x):
            x = x.bfloat16().requires_grad_()
            (z,) = torch.ops.mxrec.hstu_projection(x, weight, (96,), 1e-6)
            return x.detach(), z.detach(), *torch.autograd.grad(z, x, grad[:, :96].bfloat16())
        for mean in (0, 3, -40, 1000, -1e5, 1e5):
            rows = (x * max(1, abs(mean) / 100) + mean)
            rows[60:] = mean
            rows, z, dx = run(rows)
            X = rows.double().requires_grad_()
            want = F.silu(F.layer_norm(X, (128,), eps=1e-6) @ weight.double())
            slope, = torch.autograd.grad(want, X, grad[:, :96].bfloat16().double())
            assert float((z.double() - want).abs().max()) < 2e-2, (mean, z.double() - want)
            assert float((z[60:].double().abs()).max()) == 0, mean
            for a, e in ((dx[:60], slope[:60]), (dx[60:], slope[60:])):
                assert float((a.double() - e).abs().max()) < 1e-2 * float(e.abs().max()), mean
        for bad in (float("nan"), float("inf"), float("-inf")):
            rows = x.clone()
            rows[5, 17] = bad
            for found, normal in zip(run(rows)[1:], run(x)[1:]):
                assert bool(found[5].isnan().all())
                others = [row for row in range(70) if row != 5]
                assert found[others].equal(normal[others])
        """,
        GR_OPS_ISA=isa,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",  # the CPU's kernels alone
    )
    assert done.returncode == 0, done.stderr


def test_the_library_has_parallel_loops() -> None:
    """at::parallel_for is compiled into it, and without OpenMP as a plain loop."""
    from gr_ops import library_directory

    assert b"GOMP_parallel" in (library_directory() / "libgr_ops.so").read_bytes()


def test_one_and_two_threads_agree() -> None:
    (x, weight), _ = tensors(torch.float64, (1000, 50), (50, 200))
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        parts = torch.ops.mxrec.hstu_projection(x, weight, (50, 50, 50, 50), EPS)
        found.append([*parts, *torch.autograd.grad(sum(part.square().sum() for part in parts), (x, weight))])
    for one, two in zip(*found):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


def test_second_derivatives_raise() -> None:
    (x, weight), _ = tensors(torch.float64, (3, 4), (4, 6))
    (part,) = torch.ops.mxrec.hstu_projection(x, weight, (6,), EPS)
    (grad,) = torch.autograd.grad(part.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="hstu_projection_backward: double backward is not supported"):
        grad.sum().backward()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(3)}, "x must be 2-D"),
        ({"x": torch.zeros(3, 4).long()}, "x has an unsupported dtype"),
        ({"weight": torch.zeros(5, 6)}, "weight differs in shape"),
        ({"weight": torch.zeros(4, 6).double()}, "weight differs in dtype"),
        ({"x": torch.zeros(3, 4).half()}, "weight differs in dtype"),
        ({"x": torch.zeros(3, 4).half(), "weight": torch.zeros(4, 6).bfloat16()}, "weight differs in dtype"),
        ({"split": (6, 0)}, "split must hold widths greater than 0"),
        ({"split": (6, 1)}, "weight differs in shape"),
    ],
)
def test_projection_refuses(change: dict, message: str) -> None:
    arguments = {"x": torch.zeros(3, 4), "weight": torch.zeros(4, 6), "split": (4, 2), "eps": EPS} | change
    with pytest.raises(RuntimeError, match=f"hstu_projection: {message}"):
        torch.ops.mxrec.hstu_projection(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u": torch.zeros(2, 5)}, "u differs in shape"),
        ({"x": torch.zeros(3, 5)}, "x differs in shape"),
        ({"x": torch.zeros(3, 4).bfloat16()}, "x differs in dtype"),
        ({"bias": torch.zeros(5)}, "bias differs in shape"),
        ({"keep": torch.zeros(3, 5)}, "keep has an unsupported dtype"),
        ({"keep": torch.zeros(3, 4, dtype=torch.bool)}, "keep differs in shape"),
    ],
)
def test_gated_output_refuses(change: dict, message: str) -> None:
    arguments = {
        "attended": torch.zeros(3, 5),
        "u": torch.zeros(3, 5),
        "x": torch.zeros(3, 4),
        "weight": torch.zeros(4, 5),
        "bias": torch.zeros(4),
        "keep": None,
        "scale": 1.0,
        "eps": EPS,
    }
    with pytest.raises(RuntimeError, match=f"hstu_gated_output: {message}"):
        torch.ops.mxrec.hstu_gated_output(**arguments | change)
