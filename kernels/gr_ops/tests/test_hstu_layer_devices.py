"""The operators around HSTU's attention on each device, in the types that a device computes, against float64."""

import json

import pytest
import torch
import torch.nn.functional as F

from conftest import HAS_NPU

EPS = 1e-6
# Of what is multiplied, and of rows between layers.
TYPES = [
    (torch.float32, torch.float32),
    (torch.float16, torch.float16),
    (torch.bfloat16, torch.bfloat16),
    (torch.float16, torch.float32),
    (torch.bfloat16, torch.float32),
]
TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}  # of 1 and of the largest element
PROJECTIONS = [(20, 16, (16, 16)), (300, 50, (50, 40, 3, 130)), (1, 8, (8,))]
GATES = [(20, 16, 16), (300, 130, 67), (1, 5, 9)]


def assert_close(
    given: torch.Tensor,
    expected: torch.Tensor,
    dtype: torch.dtype,
    terms: float = 1.0,
    rows: torch.dtype | None = None,
) -> None:
    """``terms``: size of what a gradient of a weight is summed from. ``rows``: its type, where that is another one."""
    assert given.dtype == (rows or dtype) and given.shape == expected.shape
    if expected.numel():
        limit = TOLERANCE[dtype] * max(1.0, float(expected.abs().max()), terms)
        assert float((given.detach().cpu().double() - expected.detach()).abs().max()) <= limit


def leaves(
    device: str, dtype: torch.dtype, rows: torch.dtype | None = None, **shapes: tuple[int, ...]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Leaves on the device, and the same numbers in float64 on the CPU; `x` is of type `rows`, if given."""
    generator = torch.Generator().manual_seed(sum(map(sum, shapes.values())))
    wide = []
    for name, shape in shapes.items():
        scale = shape[-1] ** -0.5 if name == "weight" else 1.0
        numbers = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
        wide.append(numbers.to((name == "x" and rows) or dtype).double())
    types = [(name == "x" and rows) or dtype for name in shapes]
    ours = [x.to(kind).to(device).requires_grad_() for x, kind in zip(wide, types)]
    return ours, [x.requires_grad_() for x in wide]


def factors(tensors: list[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(x.shape, generator=generator, dtype=torch.float64).to(dtype).double() for x in tensors]


@pytest.mark.parametrize(("dtype", "between"), TYPES, ids=str)
@pytest.mark.parametrize(("tokens", "dim", "split"), PROJECTIONS)
def test_projection(
    tokens: int, dim: int, split: tuple[int, ...], dtype: torch.dtype, between: torch.dtype, device: str
) -> None:
    ours, (x, weight) = leaves(device, dtype, between, x=(tokens, dim), weight=(dim, sum(split)))
    parts = torch.ops.mxrec.hstu_projection(*ours, split, EPS)
    expected = F.silu(F.layer_norm(x, (dim,), eps=EPS) @ weight).split(split, dim=1)
    grads = factors(expected, dtype)
    torch.autograd.backward(parts, [grad.to(dtype).to(device) for grad in grads])
    torch.autograd.backward(expected, grads)
    for given, wanted in zip(parts, expected):
        assert given.is_contiguous()
        assert_close(given, wanted, dtype)
    assert_close(ours[0].grad, x.grad, dtype, rows=between)
    assert_close(ours[1].grad, weight.grad, dtype, tokens**0.5)


@pytest.mark.parametrize(("dtype", "between"), TYPES, ids=str)
@pytest.mark.parametrize(("tokens", "width", "dim"), GATES)
@pytest.mark.parametrize("dropped", [False, True])
def test_gated_output(
    tokens: int, width: int, dim: int, dtype: torch.dtype, between: torch.dtype, dropped: bool, device: str
) -> None:
    rows, out = (tokens, width), (tokens, dim)
    ours, wide = leaves(device, dtype, between, attended=rows, u=rows, x=out, weight=(dim, width), bias=(dim,))
    keep, scale = (torch.rand(rows) < 0.7, 1 / 0.7) if dropped else (None, 1.0)
    given = torch.ops.mxrec.hstu_gated_output(*ours, None if keep is None else keep.to(device), scale, EPS)
    attended, u, x, weight, bias = wide
    gated = F.layer_norm(attended, (width,), eps=EPS) * u * (1 if keep is None else keep.double() * scale)
    expected = x + F.linear(gated, weight, bias)
    (grad,) = factors([expected], between)
    given.backward(grad.to(between).to(device))
    expected.backward(grad)
    assert_close(given, expected, dtype, rows=between)
    for index, (ours_one, wanted) in enumerate(zip(ours, wide)):
        kind = between if index == 2 else dtype  # x
        assert_close(ours_one.grad, wanted.grad, dtype, tokens**0.5 if index > 2 else 1.0, rows=kind)


@pytest.mark.parametrize("between", [torch.float32, torch.bfloat16], ids=str)
def test_fake_tensors_have_the_types_of_results(between: torch.dtype, device: str) -> None:
    shapes = {"attended": (6, 5), "u": (6, 5), "x": (6, 4), "weight": (4, 5), "bias": (4,)}
    gate, _ = leaves(device, torch.bfloat16, between, **shapes)
    projection, _ = leaves(device, torch.bfloat16, between, x=(6, 4), weight=(4, 8))
    arguments = {"hstu_projection": (*projection, [5, 3], EPS), "hstu_gated_output": (*gate, None, 1.0, EPS)}
    for name, given in arguments.items():
        torch.library.opcheck(getattr(torch.ops.mxrec, name).default, given, test_utils=("test_faketensor",))


def test_worked_example(device: str) -> None:
    """Rows (1, 3) and (0, 2) have norm (-1, 1): with a weight of one, products -1, 1 and their SiLU."""
    x = torch.tensor([[1.0, 3.0], [0.0, 2.0]], device=device)
    weight = torch.eye(2, device=device)
    first, second = torch.ops.mxrec.hstu_projection(x, weight, (1, 1), 0.0)
    torch.testing.assert_close(first.cpu(), torch.full((2, 1), -0.26894143))
    torch.testing.assert_close(second.cpu(), torch.full((2, 1), 0.73105860))
    keep = torch.tensor([[True, False], [True, True]], device=device)
    u, bias = torch.tensor([[2.0, 5.0], [3.0, 4.0]], device=device), torch.tensor([10.0, 20.0], device=device)
    out = torch.ops.mxrec.hstu_gated_output(x, u, x, weight, bias, keep, 0.5, 0.0)
    # x + norm u keep / 2 + bias: -1, 0 and -1.5, 2 beside x and the bias.
    torch.testing.assert_close(out.cpu(), torch.tensor([[10.0, 23.0], [8.5, 24.0]]))


ROWS = [[1.0, 2.0, 3.0], [0.0, 4.0, 2.0]]  # their norms are -r, 0, r and -r, r, 0 with r = sqrt(1.5)


def assert_numbers(given: list[torch.Tensor], wanted: list[list]) -> None:
    for tensor, numbers in zip(given, wanted, strict=True):
        torch.testing.assert_close(tensor.detach().cpu(), torch.tensor(numbers), rtol=1e-6, atol=2e-6)


def test_worked_example_of_the_projections_gradients(device: str) -> None:
    """With a weight of one, products are the norms: numbers of 30 digits, rounded."""
    leaves = [torch.tensor(x, device=device, requires_grad=True) for x in (ROWS, torch.eye(3).tolist())]
    first, second = torch.ops.mxrec.hstu_projection(*leaves, (2, 1), 0.0)
    assert_numbers([first, second], [[[-0.278142646, 0.0], [-0.278142646, 0.946602225]], [[0.946602225], [0.0]]])
    of_parts = [torch.tensor(x, device=device) for x in ([[1.0, 2.0], [-1.0, 1.0]], [[3.0], [2.0]])]
    wanted = [
        [[0.199173412, -0.398346825, 0.199173412], [-0.104537439, -0.104537439, 0.209074878]],
        [
            [0.0, -2.43463754, -4.85442289],
            [-0.0148521983, 1.20989267, 1.22474487],
            [0.0148521983, 1.22474487, 3.62967802],
        ],
    ]
    assert_numbers(list(torch.autograd.grad([first, second], leaves, of_parts)), wanted)


def test_worked_example_of_the_gates_gradients(device: str) -> None:
    """One element is dropped, the others are doubled."""
    u, x = [[1.0, 2.0, -1.0], [2.0, 1.0, 3.0]], [[1.0, 2.0], [3.0, 4.0]]
    weight, bias = [[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]], [10.0, 20.0]
    leaves = [torch.tensor(numbers, device=device, requires_grad=True) for numbers in (ROWS, u, x, weight, bias)]
    keep = torch.tensor([[False, True, True], [True, True, True]], device=device)
    out = torch.ops.mxrec.hstu_gated_output(*leaves, keep, 2.0, 0.0)
    of_out = [[1.0, 2.0], [3.0, -1.0]]
    wanted = [
        [[-5.71547607, 11.4309521, -5.71547607], [1.02062073, 1.02062073, -2.04124145]],
        [[0.0, 0.0, -4.89897949], [-7.34846923, 12.2474487, 0.0]],
        of_out,
        [[-14.6969385, 7.34846923, -2.44948974], [4.89897949, -2.44948974, -4.89897949]],
        [4.0, 1.0],
    ]
    assert_numbers([out], [[[11.0, 24.4494897], [13.0, 26.4494897]]])
    assert_numbers(list(torch.autograd.grad(out, leaves, torch.tensor(of_out, device=device))), wanted)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_projection_beyond_fp16(sign: float, device: str) -> None:
    """Products of 160,000 and -160,000, rounded after SiLU: infinite or 0; the slope 1 or 0."""
    x = torch.tensor([[1.0, -1.0]]).repeat(2, 8)
    weight = sign * 10_000.0 * x[0, :, None].expand(16, 4)
    leaves = [tensor.to(device, torch.float16).requires_grad_() for tensor in (x, weight)]
    parts = torch.cat(torch.ops.mxrec.hstu_projection(*leaves, (3, 1), EPS), 1)
    assert parts.eq(float("inf") if sign > 0 else 0.0).all()
    dx, dweight = torch.autograd.grad(parts.sum(), leaves)
    slope = 1.0 if sign > 0 else 0.0
    assert_close(dweight, 2 * slope * x[0, :, None].expand(16, 4).double(), torch.float16)
    assert dx.isfinite().all()
    x[1, 5] = float("nan")
    first, _ = torch.ops.mxrec.hstu_projection(x.to(leaves[0]), leaves[1], (3, 1), EPS)
    assert first[1].isnan().all() and not first[0].isnan().any()


def test_no_tokens(device: str) -> None:
    (x, weight), _ = leaves(device, torch.float32, x=(0, 4), weight=(4, 5))
    parts = torch.ops.mxrec.hstu_projection(x, weight, (2, 3), EPS)
    sum(part.sum() for part in parts).backward()
    assert [part.shape for part in parts] == [(0, 2), (0, 3)]
    assert (weight.grad == 0).all() and x.grad.shape == (0, 4)
    rows, _ = leaves(device, torch.float32, a=(0, 6), u=(0, 6), x=(0, 4), weight=(4, 6), bias=(4,))
    torch.ops.mxrec.hstu_gated_output(*rows, None, 1.0, EPS).sum().backward()
    assert all((tensor.grad == 0).all() for tensor in rows)


def test_inputs_need_not_be_contiguous(device: str) -> None:
    (x, weight), (x64, weight64) = leaves(device, torch.float32, x=(50, 60), weight=(32, 50))
    parts = torch.ops.mxrec.hstu_projection(x.T, weight.T, (20, 12), EPS)
    expected = F.silu(F.layer_norm(x64.T, (50,), eps=EPS) @ weight64.T).split((20, 12), dim=1)
    sum(part[:, ::2].sum() for part in parts).backward()
    sum(part[:, ::2].sum() for part in expected).backward()
    assert_close(x.grad, x64.grad, torch.float32)
    assert_close(weight.grad, weight64.grad, torch.float32, 8.0)


def test_kept_elements_on_a_device(device: str) -> None:
    like, p = torch.empty(1000, 1000, device=device), 0.3
    keep = torch.ops.mxrec.hstu_keep(like, p, 5)
    assert keep.dtype == torch.bool and keep.device == like.device and keep.shape == like.shape
    deviation = (p * (1 - p) / keep.numel()) ** 0.5
    assert abs(float(keep.double().mean()) - (1 - p)) < 5 * deviation
    other = torch.ops.mxrec.hstu_keep(like, p, 6)
    assert abs(float((keep & other).double().mean()) - (1 - p) ** 2) < 5 * deviation
    assert torch.equal(torch.ops.mxrec.hstu_keep(like, p, 5), keep)
    assert bool(torch.ops.mxrec.hstu_keep(like, 0.0, 5).all())


@pytest.mark.parametrize(
    ("x", "weight", "split", "message"),
    [
        (torch.zeros(2, 3).double(), torch.zeros(3, 4).double(), (4,), "float64 is not supported on the NPU"),
        (torch.zeros(2, 2049), torch.zeros(2049, 4), (4,), "x has 2049 columns; expected at most 2048"),
        (torch.zeros(2, 1), torch.zeros(1, 16385), (16385,), "weight has 16385 columns; expected at most 16384"),
        (torch.zeros(2, 3), torch.zeros(3, 17), (1,) * 17, "split has 17 parts; expected at most 16"),
    ],
    ids=["float64", "wide rows", "wide product", "parts"],
)
def test_what_an_npu_does_not_take(x: torch.Tensor, weight: torch.Tensor, split: tuple, message: str) -> None:
    if not HAS_NPU:
        return
    with pytest.raises(RuntimeError, match=f"hstu_projection: {message}"):
        torch.ops.mxrec.hstu_projection(x.npu(), weight.npu(), split, EPS)


@pytest.mark.emulated
def test_what_the_schedules_move_and_multiply(fresh_process, tmp_path) -> None:
    """Launches, products and bytes of one layer, by the counts of the emulated device (the operators' READMEs)."""
    if not HAS_NPU:
        return
    counts = tmp_path / "counts.jsonl"
    done = fresh_process(
        """
        import torch, torch_npu, gr_ops
        gr_ops.load()
        L, D = 512, 64
        x, weight = torch.randn(L, D).half().npu(), torch.randn(D, 4 * D).half().npu()
        u, v, q, k = torch.ops.mxrec.hstu_projection(x, weight, [D] * 4, 1e-6)
        torch.ops.mxrec.hstu_projection_backward([u, v, q, k], x, weight, [D] * 4, 1e-6)
        output, bias = torch.randn(D, D).half().npu(), torch.randn(D).half().npu()
        torch.ops.mxrec.hstu_gated_output(v, u, x, output, bias, None, 1.0, 1e-6)
        torch.ops.mxrec.hstu_gated_output_backward(x, v, u, output, None, 1.0, 1e-6)
        torch.npu.synchronize()
        """,
        TWIN_COUNTS=str(counts),
        TWIN_CORES="2",
        TASK_QUEUE_ENABLE="0",
    )
    assert done.returncode == 0, done.stderr
    (total,) = (json.loads(line) for line in counts.read_text().splitlines())
    kernels = total["kernels"]
    # One product of the layer's matrices each way, and one more backward for the projection; 128 tokens at a time.
    rows, matrix, blocks = 512 * 64, 64 * 64, 4
    products = {"": rows * 64, "Backward": rows * 64}
    for way, count in products.items():
        gate = kernels[f"HstuGatedOutput{way}"]
        projection = kernels[f"HstuProjection{way}"]
        assert (gate["products"], projection["products"]) == (count, 4 * count * (2 if way else 1))
        assert gate["launches"] == projection["launches"] == 1
    # Reads of x, attended, u, the gated rows, their products, the weight once a block, the bias once a core.
    assert kernels["HstuGatedOutput"]["bytes_read"] == rows * (5 * 2) + blocks * matrix * 2 + 2 * 64 * 2
    assert kernels["HstuGatedOutput"]["bytes_written"] == rows * (3 * 2)
    assert kernels["HstuGatedOutputBackward"]["bytes_written"] == rows * (3 * 2 + 4)
    assert kernels["HstuProjection"]["bytes_written"] == rows * (2 + 4 * (2 + 2))
