"""A layer of a training step as one function of gr_ops: what it is given, and on a Hopper GPU what it makes of it."""

import pytest
import torch
from gr_ops.cuda import paths
from gr_ops.cuda.layer import whole

from gr_model.config import ModelConfig
from gr_model.model import jagged
from gr_model.model.attention.attention import Attention
from gr_model.model.attention.base import BatchAttention, for_batch
from gr_model.model.attention.fused import FusedAttention
from gr_model.model.attention.kernels import KernelAttention
from gr_model.model.hstu import HSTULayer
from gr_model.model.sequences import Sequences

HOPPER = torch.cuda.is_available() and paths.machine(0).capability == paths.HOPPER and paths.machine(0).tested
LENGTHS = (130, 70, 64, 9)


def sequences(device: str, masked: bool) -> Sequences:
    generator = torch.Generator().manual_seed(3)
    gaps = [(2 ** (torch.rand(n, generator=generator) * 25)).long() for n in LENGTHS]
    times = torch.cat([10**9 + gap.cumsum(0) for gap in gaps]).to(device)
    offsets = jagged.offsets_of(torch.tensor(LENGTHS, device=device))
    return Sequences(offsets, times, LENGTHS, *(((20, 5, 0, 3), 2) if masked else ()))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("kind", "biased"), [(FusedAttention, False), (KernelAttention, False), (KernelAttention, True)]
)
def test_one_call_is_what_attention_calls(kind: type[BatchAttention], biased: bool, masked: bool) -> None:
    """By the CPU's operators, which both go to here, to the last bit."""
    config = ModelConfig(dim=16, heads=2, qk_dim=8, value_dim=8, relative_bias=biased)
    batch, layer = kind(sequences("cpu", masked), config), Attention(config)
    for table in layer.parameters():
        torch.nn.init.normal_(table)
    q, k, v = (torch.randn(sum(LENGTHS), 2, 8) for _ in range(3))
    given = layer.in_one_call(batch)
    assert given is not None
    attention = whole.Attention(heads=2, **{name: x for name, x in given.items() if name != "tables"})
    found = attention.attend(q, k, v, given["tables"]).flatten(1)
    assert torch.equal(found, batch.attend(q, k, v, layer))


def test_a_dense_bias_is_not_one_call() -> None:
    config = ModelConfig(dim=16, heads=2, qk_dim=8, value_dim=8, relative_bias=True)
    layer = Attention(config)
    assert layer.in_one_call(FusedAttention(sequences("cpu", False), config)) is None


def run(attention: str, biased: bool, masked: bool, dtype: torch.dtype, recompute: bool = False) -> list[torch.Tensor]:
    """Output, and the gradients of x and of the parameters."""
    torch.manual_seed(1)
    config = ModelConfig(
        dim=192,
        heads=2,
        qk_dim=128,
        value_dim=128,
        attention=attention,
        relative_bias=biased,
        dropout=0.25,
        max_items=200,
    )
    module = HSTULayer(config)
    module.dropout.from_host = True  # the same elements in all
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape) * (0.5 if parameter.dim() == 1 else 0.1))
    module = module.to("cuda", dtype)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(sum(LENGTHS), 192, generator=generator).to("cuda", dtype).requires_grad_()
    grad = torch.randn(sum(LENGTHS), 192, generator=generator).to("cuda", dtype)
    with torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.float32):
        batch = for_batch(sequences("cuda", masked), config)
        if recompute:
            out = torch.utils.checkpoint.checkpoint(module, x, batch, use_reentrant=False)
        else:
            out = module(x, batch)
    out.backward(grad)
    return [out.detach(), *(leaf.grad for leaf in (x, *module.parameters()))]


@pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU with the versions in gr_ops/cuda/paths.py")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_a_layer_is_as_near_to_float64_as_plain_pytorch(
    biased: bool, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    asked = whole.layer
    monkeypatch.setattr(whole, "layer", lambda *x: calls.append(x) or asked(*x))
    found = run("fused", biased, masked, torch.float32)
    assert len(calls) == 1
    again = run("fused", biased, masked, torch.float32, recompute=True)
    plain, wide = (run("plain", biased, masked, dtype) for dtype in (torch.float32, torch.float64))
    for number, (one, other, third, right) in enumerate(zip(found, plain, again, wide, strict=True)):
        assert one.dtype == other.dtype == torch.float32  # between the layers autocast rounds nothing
        ours, theirs, recomputed = (float((x.double() - right).norm() / right.norm()) for x in (one, other, third))
        # The tables of the bias, behind the other five: sums of numbers that were rounded, which PyTorch rounds later.
        allowed = (1.5 if number < 5 else 2.0) * theirs + 1e-6
        assert max(ours, recomputed) < allowed, (number, ours, recomputed, theirs)


@pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU with the versions in gr_ops/cuda/paths.py")
def test_without_gradients_no_slopes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "layer", lambda *_: pytest.fail("it is for training steps"))
    with torch.no_grad(), pytest.raises(RuntimeError, match="does not require grad"):
        run("fused", False, False, torch.float32)
