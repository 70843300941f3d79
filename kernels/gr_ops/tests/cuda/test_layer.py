"""The operators around HSTU's attention on CUDA tensors, against their formulas in float64 PyTorch."""

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from cuda_cases import ON_GPU
from gr_ops.cuda import operators, paths
from gr_ops.cuda.layer import dropout, hopper_products, training

EPS = 1e-6
HALF = torch.bfloat16 if ON_GPU else torch.float16  # the interpreter of Triton 3.2 takes bfloat16's bits for numbers
TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}  # of 1 and of the largest element
# Of x and of the rest: under autocast x stays float32.
TYPES = [(torch.float32, torch.float32), (HALF, HALF), (torch.float32, HALF)]
# The tests' tiles are 32 tokens by 16 columns, in steps of 16: whole tiles; cut ones, more parts than one launch has;
# one token, one column.
PROJECTIONS = [(64, 32, (32, 16)), (70, 50, (50, 40, 3, 130, 1, 7)), (1, 1, (1,))]
GATES = [(64, 16, 32), (70, 130, 67), (1, 5, 1)]


def assert_close(given, expected, dtype, half, terms=1.0):
    """``terms``: size of what a gradient of a weight is summed from."""
    assert given.dtype == dtype and given.shape == expected.shape
    limit = TOLERANCE[half] * max(1.0, float(expected.abs().max()), terms)
    assert float((given.detach().cpu().double() - expected.detach()).abs().max()) <= limit


def leaves(device, types, **shapes):
    """Leaves on the device, and the same numbers in float64 on the CPU; those of x have the first type.

    Rows of x and of attended are far from zero: a norm that forgets the mean, or loses its digits, is seen.
    """
    generator = torch.Generator().manual_seed(sum(map(sum, shapes.values())))
    ours, wide = [], []
    for name, shape in shapes.items():
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
        drawn = drawn * shape[-1] ** -0.5 if name == "weight" else drawn + 3.0 * (name in ("x", "attended"))
        ours.append(drawn.to(types[name != "x"]).to(device).requires_grad_())
        wide.append(ours[-1].detach().cpu().double().requires_grad_())
    return ours, wide


def factors(tensors, dtype):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(x.shape, generator=generator, dtype=torch.float64).to(dtype) for x in tensors]


def projected(x, weight, split):
    return F.silu(F.layer_norm(x, x.shape[1:], eps=EPS) @ weight).split(split, dim=1)


def check_projection(case, types, device):
    tokens, dim, split = case
    ours, wide = leaves(device, types, x=(tokens, dim), weight=(dim, sum(split)))
    parts, expected = torch.ops.mxrec.hstu_projection(*ours, split, EPS), projected(*wide, split)
    grads = factors(expected, types[1])
    torch.autograd.backward(parts, [grad.to(device) for grad in grads])
    torch.autograd.backward(expected, [grad.double() for grad in grads])
    for given, wanted in zip(parts, expected, strict=True):
        assert given.is_contiguous()
        assert_close(given, wanted, types[1], types[1])
    assert_close(ours[0].grad, wide[0].grad, types[0], types[1])
    assert_close(ours[1].grad, wide[1].grad, types[1], types[1], tokens**0.5)


def check_gated_output(case, types, dropped, device):
    tokens, width, dim = case
    rows = (tokens, width)
    shapes = {"attended": rows, "u": rows, "x": (tokens, dim), "weight": (dim, width), "bias": (dim,)}
    ours, wide = leaves(device, types, **shapes)
    keep, scale = (torch.rand(rows) < 0.7, 1 / 0.7) if dropped else (None, 1.0)
    given = torch.ops.mxrec.hstu_gated_output(*ours, None if keep is None else keep.to(device), scale, EPS)
    attended, u, x, weight, bias = wide
    gated = F.layer_norm(attended, (width,), eps=EPS) * u * (1 if keep is None else keep.double() * scale)
    expected = x + F.linear(gated, weight, bias)
    (grad,) = factors([expected], types[0])
    given.backward(grad.to(device))
    expected.backward(grad.double())
    assert_close(given, expected, types[0], types[1])
    for name, ours_one, wanted in zip(shapes, ours, wide, strict=True):
        terms = tokens**0.5 if name in ("weight", "bias") else 1.0
        assert_close(ours_one.grad, wanted.grad, types[name != "x"], types[1], terms)


@pytest.mark.parametrize("types", TYPES, ids=str)
@pytest.mark.parametrize("case", PROJECTIONS, ids=str)
def test_projection(case, types, device):
    check_projection(case, types, device)


@pytest.mark.parametrize("types", TYPES, ids=str)
@pytest.mark.parametrize("case", GATES, ids=str)
@pytest.mark.parametrize("dropped", [False, True])
def test_gated_output(case, types, dropped, device):
    check_gated_output(case, types, dropped, device)


@pytest.mark.parametrize("types", TYPES, ids=str)
def test_tiles_of_the_size_that_is_used(types, device, monkeypatch):
    """Whole ones and a cut one of tokens; on a GPU the article's widths."""
    monkeypatch.undo()
    tokens, dim = (1000, 512) if ON_GPU else (130, 64)
    check_projection((tokens, dim, (dim * 2, dim * 2)), types, device)
    check_gated_output((tokens, dim, dim * 2), types, True, device)


@pytest.mark.parametrize("types", TYPES, ids=str)
@pytest.mark.parametrize("case", [(70, 50, (50, 40, 3)), (33, 64, (32, 16))], ids=str)
def test_a_layer_of_a_training_step(case, types, device):
    """Of float32 weights under autocast, which gradients of float32 leave as they are; x goes by, and its gradient of
    the residual comes back."""
    tokens, dim, split = case
    shapes = {"x": (tokens, dim), "weight": (dim, sum(split)), "output": (dim, split[0]), "bias": (dim,)}
    ours, wide = leaves(device, (types[0], types[0]), **shapes)
    keep = torch.rand(tokens, split[0]) < 0.7

    def expected(x, weight, output, bias):
        u, *rest = projected(x, weight, split)
        gated = F.layer_norm(u.square(), u.shape[1:], eps=EPS) * u * keep / 0.7
        return x + F.linear(gated, output, bias) + sum(part.sum(1, keepdim=True) for part in rest)

    def given(x, weight, output, bias):
        x, u, *rest = training.project(x, weight, split, EPS, types[1])
        out = training.add_gated(x, u.square(), u, output, bias, keep.to(device), 1 / 0.7, EPS)
        return out + sum(part.sum(1, keepdim=True) for part in rest)

    found, right = given(*ours), expected(*wide)
    (grad,) = factors([right], types[0])
    found.backward(grad.to(device))
    right.backward(grad.double())
    assert_close(found, right, types[0], types[1])
    for name, ours_one, wanted in zip(shapes, ours, wide, strict=True):
        assert_close(ours_one.grad, wanted.grad, types[0], types[1], 1.0 if name == "x" else tokens**0.5)


def test_a_training_step_without_tokens(device):
    (x, weight, output, bias), _ = leaves(device, TYPES[0], x=(0, 4), weight=(4, 6), output=(4, 3), bias=(4,))
    x_2, u, v = training.project(x, weight, (3, 3), EPS, torch.float32)
    training.add_gated(x_2, v, u, output, bias, None, 1.0, EPS).sum().backward()
    assert all((leaf.grad == 0).all() for leaf in (x, weight, output, bias))


@pytest.mark.skipif(not ON_GPU, reason="wgmma needs a Hopper GPU")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("tokens", "dim", "split"),
    [
        (1, 64, (128,)),
        (129, 128, (256, 128)),
        (500, 576, (128, 128, 384)),
        (70, 64, (128, 384)),
        (40_000, 512, (512,) * 4),
        (3001, 1024, (1024,) * 4),
    ],
    ids=str,
)
def test_products_for_hopper(tokens, dim, split, dtype):
    """One and two pieces of columns, more tiles than programs, parts of several widths; every element is written."""
    device, generator = "cuda", torch.Generator("cuda").manual_seed(tokens)

    def drawn(*shape):
        return torch.randn(shape, device=device, generator=generator).to(dtype)

    a, weight = drawn(tokens, dim), drawn(dim, sum(split)) * dim**-0.5
    parts = [torch.full((tokens, width), torch.nan, device=device, dtype=dtype) for width in split]
    grads = [drawn(tokens, width + 8)[:, :width] for width in split]
    product = a.double() @ weight.double()
    hopper_products.silu_parts(a, weight, parts)
    limit = TOLERANCE[dtype] / 4
    assert relative_error(torch.cat(parts, 1), F.silu(product)) < limit
    sigmoid = product.sigmoid()
    slopes = torch.cat(grads, 1).double() * sigmoid * (1 + product * (1 - sigmoid))
    assert relative_error(hopper_products.slope_parts(a, weight, grads), slopes) < limit
    width = sum(split)
    for like in (torch.float32, dtype):
        output, x = drawn(width, dim) * dim**-0.5, drawn(tokens, width).to(like)
        # At an address that 16 divides, at one that it does not, and every second number.
        for bias in (drawn(width), drawn(width + 1)[1:], drawn(2 * width)[::2]):
            out = torch.full_like(x, torch.nan)
            hopper_products.with_residual(a, output, bias, x, out)
            assert relative_error(out, x.double() + F.linear(a.double(), output.double(), bias.double())) < limit


class Matrix:
    """What is asked of a tensor of a GPU, where there is none."""

    is_cuda, device = True, torch.device("cuda", 0)

    def __init__(self, shape, strides, dtype, address=0):
        self.shape, self.strides, self.dtype, self.address = shape, strides, dtype, address

    def __len__(self):
        return self.shape[0]

    def stride(self, dim):
        return self.strides[dim]

    def data_ptr(self):
        return self.address

    def element_size(self):
        return self.dtype.itemsize

    def t(self):
        return Matrix(self.shape[::-1], self.strides[::-1], self.dtype, self.address)


@pytest.mark.parametrize("capability", [(9, 0), (8, 0), (10, 0)])
def test_which_products_are_for_hopper(capability, monkeypatch):
    """Sizes, types, addresses and steps of rows."""
    machine = paths.Machine(capability, "2.11.0", "3.6.0", gluon=True)
    monkeypatch.setattr(paths, "machine", lambda device: machine)

    def taken(dim=128, widths=(256, 256), dtype=torch.bfloat16, step=128, address=0, by_columns=False, tokens=9):
        columns = sum(widths)
        weight = Matrix((dim, columns), (1, dim) if by_columns else (columns, 1), dtype)
        parts = [Matrix((tokens, width), (width, 1), dtype) for width in widths]
        return hopper_products.take(Matrix((tokens, dim), (step, 1), dtype, address), weight, parts)

    on_hopper = capability == (9, 0)
    assert taken() == taken(by_columns=True) == taken(step=136) == taken(64, (1024,)) == taken(address=16) == on_hopper
    assert taken(dtype=torch.float16) == taken(widths=(256, 512)) == taken(widths=(128, 128)) == on_hopper
    assert not taken(dtype=torch.float32) and not taken(widths=(192, 192))
    assert not taken(96) and not taken(96, by_columns=True) and not taken(tokens=2**31)
    assert not taken(widths=(256,) * 5)
    assert not taken(step=129) and not taken(address=8)


def relative_error(found, right):
    return float((found.double() - right).norm() / right.norm())


def test_inputs_need_not_be_contiguous(device):
    types = (torch.float32, torch.float32)
    (x, weight), (x64, weight64) = leaves(device, types, x=(50, 60), weight=(32, 50))
    parts, expected = (
        torch.ops.mxrec.hstu_projection(x.T, weight.T, (20, 12), EPS),
        projected(x64.T, weight64.T, [20, 12]),
    )
    sum(part[:, ::2].sum() for part in parts).backward()
    sum(part[:, ::2].sum() for part in expected).backward()
    assert_close(x.grad, x64.grad, *types)
    assert_close(weight.grad, weight64.grad, *types, 8.0)
    shapes = {"attended": (20, 40), "u": (40, 20), "x": (30, 40), "weight": (20, 30), "bias": (60,)}
    (a, u, x, weight, bias), wide = leaves(device, types, **shapes)
    keep = torch.rand(20, 40) < 0.5
    out = torch.ops.mxrec.hstu_gated_output(a.T, u, x.T, weight.T, bias[::2], keep.to(device).T, 2.0, EPS)
    expected = wide[2].T + F.linear(
        F.layer_norm(wide[0].T, (20,), eps=EPS) * wide[1] * keep.T * 2, wide[3].T, wide[4][::2]
    )
    out[:, ::3].square().sum().backward()
    expected[:, ::3].square().sum().backward()
    assert_close(out, expected, *types)
    for given, wanted in zip((a, u, x, weight, bias), wide, strict=True):
        assert_close(given.grad, wanted.grad, *types, 40.0)


def test_a_wide_row_of_the_weight_does_not_overflow(device):
    """Scores of +-1e4: SiLU and its slope are x and 1, or 0."""
    x = torch.tensor([[1.0, 3.0]], device=device)  # normed: -1, 1
    weight = torch.tensor([[1e4, -1e4], [0.0, 0.0]], device=device).requires_grad_()
    (part,) = torch.ops.mxrec.hstu_projection(x, weight, (2,), 0.0)
    assert part.tolist() == [[0.0, 1e4]]
    part.sum().backward()
    assert weight.grad.tolist() == [[0.0, -1.0], [0.0, 1.0]]


def test_no_tokens(device):
    (x, weight), _ = leaves(device, TYPES[0], x=(0, 4), weight=(4, 5))
    parts = torch.ops.mxrec.hstu_projection(x, weight, (2, 3), EPS)
    sum(part.sum() for part in parts).backward()
    assert [part.shape for part in parts] == [(0, 2), (0, 3)]
    assert (weight.grad == 0).all() and x.grad.shape == (0, 4)
    rows, _ = leaves(device, TYPES[0], attended=(0, 6), u=(0, 6), x=(0, 4), weight=(4, 6), bias=(4,))
    torch.ops.mxrec.hstu_gated_output(*rows, None, 1.0, EPS).sum().backward()
    assert all((tensor.grad == 0).all() for tensor in rows)
    assert torch.ops.mxrec.hstu_keep(x, 0.5, 1).shape == (0, 4)


@pytest.mark.parametrize("seed", [0, 5, 2**31 + 7, 2**40 + 7, -3, 2**63 - 1])
def test_dropout_keeps_what_it_keeps_on_a_cpu(seed):
    """Without a GPU the CPU's operator is asked before the kernels take its place."""
    like = torch.zeros(101, 97)
    cases = [(p, torch.ops.mxrec.hstu_keep(like, p, seed)) for p in (0.0, 1e-9, 0.3, 0.99999)]
    library = None if ON_GPU else operators.register("CPU", {"hstu_keep": operators.OPERATORS["hstu_keep"]})
    for p, expected in cases:
        found = torch.ops.mxrec.hstu_keep(like.cuda() if ON_GPU else like, p, seed)
        assert found.dtype == torch.bool and torch.equal(found.cpu(), expected)
    if library is not None:
        library._destroy()


@triton.jit
def drawn(out, first, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), dropout.drawn(first, -5, 9, N).to(tl.int64))


def test_indices_beyond_32_bits_have_draws_of_their_own():
    """As csrc/layer/cpu/dropout_mask.h writes them; so many elements are not for a test."""

    def mixed(x):
        x = ((x ^ (x >> 16)) * 0x7FEB352D) % 2**32
        x = ((x ^ (x >> 15)) * 0x846CA68B) % 2**32
        return x ^ (x >> 16)

    for first in (3 * 2**32 - 16, 3 * 2**32):
        out = torch.empty(16, dtype=torch.int64, device="cuda" if ON_GPU else "cpu")
        drawn[(1,)](out, first, N=16)
        low = (2**32 - 5 + mixed(first >> 32)) % 2**32
        assert out.tolist() == [mixed(mixed(at % 2**32 ^ low) ^ 9) for at in range(first, first + 16)]


@pytest.mark.parametrize("name", ["hstu_projection", "hstu_gated_output", "hstu_keep"])
def test_registration(name, device):
    """Schemas, fake kernels, autograd and traces agree with what the kernels do."""
    types = (torch.float32, torch.float32)
    shapes = {"attended": (6, 5), "u": (6, 5), "x": (6, 4), "weight": (4, 5), "bias": (4,)}
    gate, _ = leaves(device, types, **shapes)
    projection, _ = leaves(device, types, x=(6, 4), weight=(4, 8))
    arguments = {
        "hstu_projection": (*projection, [5, 3], EPS),
        "hstu_gated_output": (*gate, torch.ones(6, 5, dtype=torch.bool, device=device), 1.5, EPS),
        "hstu_keep": (gate[0].detach(), 0.4, 2**40 + 7),
    }[name]
    checks = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    op = getattr(torch.ops.mxrec, name).default
    torch.library.opcheck(op, arguments, test_utils=checks if ON_GPU else checks[:3])


def test_second_derivatives_raise(device):
    (x, weight), _ = leaves(device, TYPES[0], x=(3, 4), weight=(4, 6))
    (part,) = torch.ops.mxrec.hstu_projection(x, weight, (6,), EPS)
    (grad,) = torch.autograd.grad(part.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="hstu_projection_backward: double backward is not supported"):
        grad.sum().backward()


@pytest.mark.parametrize(
    ("dtypes", "message"),
    [
        ((torch.float64, torch.float64), "float64 is not supported on CUDA"),
        ((torch.float16, torch.float32), "weight differs in dtype"),
        ((torch.float16, torch.bfloat16), "weight differs in dtype"),
        ((torch.int64, torch.int64), "x has an unsupported dtype"),
    ],
    ids=str,
)
def test_types_that_are_refused(dtypes, message, device):
    x, weight = (torch.zeros(4, 4, dtype=dtype, device=device) for dtype in dtypes)
    with pytest.raises(RuntimeError, match=f"hstu_projection: {message}"):
        torch.ops.mxrec.hstu_projection(x, weight, (4,), EPS)
    with pytest.raises(RuntimeError, match="hstu_gated_output: "):
        torch.ops.mxrec.hstu_gated_output(weight, weight, x, weight, weight[0], None, 1.0, EPS)
