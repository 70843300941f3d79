"""Derivatives through autograd, registration, torch.compile and torch.export of the HSTU operators."""

import pytest
import torch
from torch.library import opcheck
from torch.utils._python_dispatch import TorchDispatchMode

ops = torch.ops.mxrec
OPERATORS = [
    "hstu_dense",
    "hstu_dense.tensor",
    "hstu_dense_backward",
    "hstu_dense_backward.tensor",
    "hstu_jagged.equal",
    "hstu_jagged_backward.equal",
    "hstu_varlen",
    "hstu_paged",
    "hstu_gradients",
]
OFFSETS = [0, 5, 12, 12, 20]
QUERIES = [0, 2, 7, 7, 9]  # fewer than keys, for varlen


def leaf(*shape: int, dtype: torch.dtype = torch.float64, device: str = "cpu") -> torch.Tensor:
    seed = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=seed, dtype=dtype).to(device).requires_grad_()


def inputs(dtype: torch.dtype = torch.float64, device: str = "cpu") -> tuple[torch.Tensor, ...]:
    return tuple(leaf(20, 2, d, dtype=dtype, device=device) for d in (3, 3, 4))


def index(data: list[int], device: str = "cpu") -> torch.Tensor:
    return torch.tensor(data).to(device)


@pytest.mark.parametrize("name", OPERATORS)
def test_keys(name: str) -> None:
    full = f"mxrec::{name}"
    for key in ("CPU", "Meta", "AutogradCPU", "AutogradPrivateUse1"):
        assert torch._C._dispatch_has_computed_kernel_for_dispatch_key(full, key), key
    assert torch._C._dispatch_has_kernel_for_dispatch_key(full, "CPU")


def test_schemas_of_the_documents() -> None:
    assert str(ops.hstu_dense.default._schema) == (
        "mxrec::hstu_dense(Tensor q, Tensor k, Tensor v, Tensor? mask=None, Tensor? attnBias=None, int maskType=0, "
        'int maxSeqLen=0, float siluScale=0., str layout="normal", int[]? seqOffset=None) -> Tensor'
    )
    assert str(ops.hstu_dense_backward.default._schema) == (
        "mxrec::hstu_dense_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor? attnBias, "
        "str layout, int maskType, int maxSeqLen, float siluScale=0., int[]? seqOffset=None) "
        "-> (Tensor, Tensor, Tensor, Tensor)"
    )


FUNCTIONS = {
    "lower": lambda q, k, v, b: ops.hstu_dense(q, k, v, None, b, 0, 0, 0.3, "jagged", OFFSETS),
    "upper": lambda q, k, v, b: ops.hstu_dense(q, k, v, None, b, 1, 0, 0.3, "jagged", index(OFFSETS)),
    "user": lambda q, k, v, b: ops.hstu_dense(
        q, k, v, torch.linspace(-1, 1, 81, dtype=torch.float64).view(1, 1, 9, 9), b, 3, 0, 0.3, "jagged", OFFSETS
    ),
    "normal": lambda q, k, v, b: ops.hstu_dense(
        *(x[:18].view(2, 9, 2, -1) for x in (q, k, v)), None, b if b.size(0) == 1 else b[:2], 2
    ),
    "counts": lambda q, k, v, b: ops.hstu_jagged(
        q, k, v, None, b, 0, 0, 0.3, index(OFFSETS), index([1, 2, 0, 0]), index([2, 1, 0, 3]), 2, 0.7
    ),
    "window": lambda q, k, v, b: ops.hstu_jagged(
        q, k, v, None, b, 0, 0, 0.3, index(OFFSETS), index([1, 2, 0, 0]), None, 0, -0.7, 2, 1
    ),
    "window by distance": lambda q, k, v, b: ops.hstu_jagged(
        q, k, v, None, b, 0, 0, 0.3, index(OFFSETS), index([1, 2, 0, 0]), index([2, 1, 0, 3]), 2, -0.7, window_size=2
    ),
    "varlen": lambda q, k, v, b: ops.hstu_varlen(q[:9], k, v, None, b, 0, 0, 0, 0.0, index(QUERIES), index(OFFSETS)),
}


@pytest.mark.parametrize("bias", [(4, 2), (1, 1)], ids=["bias of every head", "one bias"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradcheck(name: str, bias: tuple[int, int]) -> None:
    assert torch.autograd.gradcheck(FUNCTIONS[name], (*inputs(), leaf(*bias, 9, 9)))


class Calls(TorchDispatchMode):
    """Records the operators of mxrec:: below autograd, with their positional arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "mxrec":
            self.seen.append((str(func), args))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("wanted", [False, True])
def test_gradient_of_the_bias_only_when_asked_for(wanted: bool) -> None:
    q, k, v = inputs()
    bias = leaf(4, 2, 9, 9).detach().requires_grad_(wanted)
    with Calls() as calls:
        ops.hstu_dense(q, k, v, None, bias, layout="jagged", seqOffset=OFFSETS).sum().backward()
    assert [name for name, _ in calls.seen] == ["mxrec.hstu_dense.default", "mxrec.hstu_gradients.default"]
    assert calls.seen[1][1][-1] is wanted and (bias.grad is not None) is wanted


def test_saved_tensors_are_the_inputs() -> None:
    q, k, v = inputs()
    bias = leaf(4, 2, 9, 9)
    saved: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.data_ptr()) or x, lambda x: x):
        ops.hstu_dense(q, k, v, None, bias, layout="jagged", seqOffset=OFFSETS)
    assert set(saved) <= {x.data_ptr() for x in (q, k, v, bias)}


def test_inputs_changed_in_place_are_noticed() -> None:
    q, k, v = inputs()
    k2 = k * 1
    output = ops.hstu_dense(q, k2, v, layout="jagged", seqOffset=OFFSETS)
    k2.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_no_second_derivative() -> None:
    q, k, v = inputs()
    output = ops.hstu_dense(q, k, v, layout="jagged", seqOffset=OFFSETS)
    (grad,) = torch.autograd.grad(output.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward is not supported"):
        grad.sum().backward()
    direct = ops.hstu_dense_backward(v.detach(), q, k, v, None, None, "jagged", 0, 0, 0.0, OFFSETS)
    with pytest.raises(RuntimeError, match="hstu_dense_backward: double backward is not supported"):
        direct[0].sum().backward()


def test_paged_has_no_gradient() -> None:
    q, k, v = inputs()
    v = v.detach()
    output = ops.hstu_paged(q, k, v, seq_offset=index(OFFSETS))
    with pytest.raises(RuntimeError, match="hstu_paged: has no gradient"):
        output.sum().backward()
    with torch.no_grad():
        assert not ops.hstu_paged(q, k, v, seq_offset=index(OFFSETS)).requires_grad


def test_no_grad_and_inference_mode(device: str) -> None:
    q, k, v = inputs(torch.float32, device)
    expected = ops.hstu_dense(q, k, v, layout="jagged", seqOffset=OFFSETS)
    assert expected.requires_grad
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            output = ops.hstu_dense(q, k, v, layout="jagged", seqOffset=index(OFFSETS, device))
        assert not output.requires_grad and output.cpu().equal(expected.detach().cpu())


def assert_opcheck(op: object, arguments: tuple, device: str) -> None:
    checks = ["test_schema", "test_faketensor"]
    if device == "cpu":  # test_autograd_registration knows no NPU in torch 2.6; dispatch does not depend on the device
        checks += ["test_autograd_registration", "test_aot_dispatch_dynamic"]
    assert set(opcheck(op, arguments, test_utils=checks).values()) == {"SUCCESS"}, op


def test_opcheck(device: str) -> None:
    q, k, v = inputs(torch.float32, device)
    bias = leaf(4, 2, 9, 9, dtype=torch.float32, device=device)
    plain = [x.detach() for x in (q, k, v)]
    grad = torch.ones_like(plain[2])
    offsets, counts = index(OFFSETS, device), (index([1, 2, 0, 0], device), index([2, 1, 0, 3], device), 2, 0.7)
    normal = tuple(x.detach()[:18].view(2, 9, 2, -1).requires_grad_() for x in (q, k, v))
    none = None
    few = q.detach()[:9].requires_grad_()
    calls = [
        (ops.hstu_dense.default, (q, k, v, none, bias, 0, 0, 0.0, "jagged", OFFSETS)),
        (ops.hstu_dense.default, (*normal, none, none, 1)),
        (ops.hstu_dense.tensor, (q, k, v, none, none, 2, 0, 0.0, "jagged", offsets)),
        (ops.hstu_dense_backward.default, (grad, *plain, none, none, "jagged", 0, 0, 0.0, OFFSETS)),
        (ops.hstu_dense_backward.tensor, (grad, *plain, none, bias.detach(), "jagged", 0, 0, 0.0, offsets)),
        (ops.hstu_jagged.equal, (q, k, v, none, bias, 0, 0, 0.0, offsets, *counts)),
        (ops.hstu_jagged_backward.equal, (grad, *plain, none, bias.detach(), 0, 0, 0.0, offsets, *counts)),
        (ops.hstu_varlen.default, (few, k, v, none, none, 0, 0, 0, 0.0, index(QUERIES, device), offsets)),
    ]
    for op, arguments in calls:
        assert_opcheck(op, arguments, device)
    cache = torch.ones(3, 2, 4, 2, 3, device=device)
    pages = [index(data, device) for data in ([0, 1, 1, 1, 3], [2, 0, 1], [4, 1, 1, 2])]
    paged = (*plain[:2], plain[1], cache, none, none, 0, 0, 0, 0.0, offsets, none, none, *pages)
    assert_opcheck(ops.hstu_paged.default, paged, device)


def block(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return ops.hstu_dense(q * 2, k, v, None, None, 0, 16, 0.0, "jagged", offsets).sin()


def batch(lengths: list[int], device: str = "cpu") -> tuple[torch.Tensor, ...]:
    total = sum(lengths)
    tokens = [leaf(total, 2, d, dtype=torch.float32, device=device) for d in (16, 16, 8)]
    return (*tokens, torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()]).to(device))


def test_compile_with_lengths_that_change() -> None:
    compiled = torch.compile(block, fullgraph=True, dynamic=True, backend="aot_eager")
    for lengths in ([5, 7, 8], [12, 8, 13], [1, 0, 16]):
        arguments = batch(lengths)
        actual, expected = compiled(*arguments), block(*arguments)
        torch.testing.assert_close(actual, expected)
        for a, b in zip(
            torch.autograd.grad(actual.sum(), arguments[:3]), torch.autograd.grad(expected.sum(), arguments[:3])
        ):
            torch.testing.assert_close(a, b)


@pytest.mark.slow
def test_compile_with_inductor() -> None:
    compiled = torch.compile(block, fullgraph=True, dynamic=True)
    arguments = batch([5, 7, 8])
    torch.testing.assert_close(compiled(*arguments), block(*arguments))


def test_export_with_a_dynamic_number_of_tokens() -> None:
    class Block(torch.nn.Module):
        def forward(self, q, k, v, offsets):
            return block(q, k, v, offsets)

    tokens = torch.export.Dim("tokens", min=2, max=4096)
    exported = torch.export.export(
        Block(), batch([5, 7, 8]), dynamic_shapes=({0: tokens}, {0: tokens}, {0: tokens}, None)
    )
    assert "mxrec.hstu_dense.tensor" in {str(node.target) for node in exported.graph.nodes}
    arguments = batch([15, 1, 16])
    torch.testing.assert_close(exported.module()(*arguments), block(*arguments))


def test_functional_transforms_see_shapes_alone() -> None:
    q, k, v = (x.to("meta") for x in inputs())
    assert ops.hstu_jagged(q, k, v, seq_offset=torch.empty(5, dtype=torch.int64, device="meta")).shape == (20, 2, 4)
    grads = ops.hstu_dense_backward(v, q, k, v, None, None, "jagged", 0, 0, 0.0, OFFSETS)
    assert [tuple(g.shape) for g in grads] == [(20, 2, 3), (20, 2, 3), (20, 2, 4), (0,)]
