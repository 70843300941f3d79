"""A layer whose projection and gated output are Triton's kernels is the layer in plain PyTorch, under autocast too.

Without a GPU the interpreter's kernels take the place of the CPU's, and float16 that of bfloat16, whose bits the
interpreter of Triton 3.2 takes for numbers.
"""

from collections.abc import Iterator

import pytest
import torch
from gr_ops.cuda import operators
from torch._subclasses.fake_tensor import FakeTensorMode

from gr_model.config import ModelConfig
from gr_model.model import fused_ops
from gr_model.model.hstu import HSTULayer

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
HALF = torch.bfloat16 if ON_GPU else torch.float16
AROUND = ("hstu_projection", "hstu_projection_backward", "hstu_gated_output", "hstu_gated_output_backward", "hstu_keep")


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the operators that were called, with the kernels on DEVICE."""
    calls: list[str] = []
    lines = {name: operators.OPERATORS[name] for name in AROUND}
    library = None
    if not ON_GPU:
        library = operators.register("CPU", lines)
    monkeypatch.setattr(fused_ops, "around_attention", lambda *_: True)  # in float32 a GPU would take PyTorch's
    for name in ("projection", "gated_output"):
        asked = getattr(fused_ops, name)
        monkeypatch.setattr(fused_ops, name, lambda *x, name=name, asked=asked: calls.append(name) or asked(*x))
    yield calls
    if library is not None:
        library._destroy()


class Attended(torch.nn.Module):
    """In the place of attention: of the same type and shape, and with gradients for all three."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: object) -> torch.Tensor:
        return (v * (q - k).mean(-1, keepdim=True)).flatten(1)

    def in_one_call(self, batch: object) -> None:
        """It is no operator of gr_ops."""


def layer(attention: str) -> HSTULayer:
    torch.manual_seed(1)
    made = HSTULayer(ModelConfig(dim=24, heads=2, qk_dim=8, value_dim=12, attention=attention, dropout=0.25)).to(DEVICE)
    made.attention = Attended()
    made.dropout.from_host = True  # the same elements in both
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape).to(DEVICE) * 0.3)
    return made


def run(attention: str, autocast: bool, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    module = layer(attention).to(dtype)
    x = torch.randn(37, 24, generator=torch.Generator().manual_seed(2)).to(DEVICE, dtype).requires_grad_()
    with torch.autocast(DEVICE, HALF, enabled=autocast):
        out = module(x, None)
    out.square().sum().backward()
    return [out.detach(), *(leaf.grad for leaf in (x, *module.parameters()))]


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("autocast", [True] if ON_GPU else [False, True])  # float32 is PyTorch's on a GPU
def test_the_layer_is_as_near_to_float64_as_plain_pytorch(
    autocast: bool, kept: bool, called: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the operators, and by the functions that keep more for the gradients."""
    monkeypatch.setattr(fused_ops, "trains_in_kernels", lambda _: kept)
    found, plain, wide = run("fused", autocast), run("plain", autocast), run("plain", False, torch.float64)
    assert called == ["projection", "gated_output"]
    for one, other, right in zip(found, plain, wide, strict=True):
        assert one.dtype == other.dtype == torch.float32  # between the layers autocast rounds nothing
        ours, theirs = (float((x.double() - right).norm() / right.norm()) for x in (one, other))
        assert ours < 1.5 * theirs + 1e-6


def test_where_the_operators_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Types of x and of the weight; widths; autocast. Tensors of a GPU that need none: nothing is calculated."""

    def taken(x: torch.dtype, weight: torch.dtype, dim: int = 8, autocast: torch.dtype | None = None) -> bool:
        tensors = torch.empty(2, dim, dtype=x, device="cuda"), torch.empty(dim, 4, dtype=weight, device="cuda")
        # torch.autocast switches itself off where no GPU is.
        monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: device == "cuda" and autocast is not None)
        monkeypatch.setattr(torch, "get_autocast_dtype", {"cuda": autocast}.__getitem__)
        return fused_ops.around_attention(*tensors, 8)

    wide, half, brain, narrow = torch.float64, torch.float16, torch.bfloat16, torch.float32
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert [taken(x, x) for x in (narrow, half, brain, wide)] == [False, True, True, False]
        assert [taken(narrow, half), taken(half, half, 2049)] == [False, False]
        assert taken(narrow, narrow, autocast=brain) and taken(brain, narrow, autocast=brain)
        assert not taken(wide, narrow, autocast=brain) and not taken(half, narrow, autocast=brain)


def test_a_compiled_layer_stays_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_ops, "around_attention", lambda *_: True)
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty(2, 24, device="cuda")
    module = layer("fused")
    assert module._by_operators(x)
    module._projected = torch.compile(module._projected)
    assert not module._by_operators(x)


def test_a_compiled_layer_is_one_function_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an H200 the steps of models whose layers were taken apart for torch.compile took 1.1 times as long."""
    monkeypatch.setattr(fused_ops, "around_attention", lambda *_: True)
    monkeypatch.setattr(fused_ops, "whole_layer", lambda *_: "whole")
    module = layer("fused")
    module._projected = torch.compile(module._projected)
    monkeypatch.setattr(module.attention, "in_one_call", lambda _: {})
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty(2, 24, device="cuda")
    assert module(x, None) == "whole"
