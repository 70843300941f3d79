"""The implementations of attention: plain PyTorch, the operators of gr_ops, and blocks that are calculated again."""

from types import SimpleNamespace

import pytest
import torch

from gr_model.config import ModelConfig
from gr_model.model.attention import base, blocked, kernels, time_buckets
from gr_model.model.attention.attention import Attention
from gr_model.model.attention.fused import FusedAttention
from gr_model.model.attention.kernels import KernelAttention
from gr_model.model.attention.plain import PlainAttention
from gr_model.model.dropout import Dropout
from gr_model.model.hstu import HSTU
from gr_model.model.jagged import load_operators, offsets_of
from gr_model.model.sequences import Sequences

load_operators(torch.device("cpu"))
LENGTHS = (70, 33, 31, 16, 2)  # blocks of 16 queries: a part of one, whole ones, and one more query


def gradients(kind: str, relative_bias: bool, dropout: float = 0.0) -> list[torch.Tensor]:
    """Of the tokens and of every parameter, and the output before them, in float64."""
    config = ModelConfig(
        dim=8,
        heads=2,
        qk_dim=4,
        value_dim=6,
        max_items=80,
        time_buckets=32,
        attention=kind,
        dropout=dropout,
        relative_bias=relative_bias,
    )
    torch.manual_seed(0)
    model = HSTU(config).double()
    for module in model.modules():
        if isinstance(module, Dropout):
            module.from_host = True
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
    x = torch.randn(sum(LENGTHS), config.dim, dtype=torch.float64, requires_grad=True)
    times = torch.cat([torch.randint(0, 10**6, (n,)).sort().values for n in LENGTHS])
    out = model(x, Sequences(offsets_of(torch.tensor(LENGTHS)), times, LENGTHS))
    out.square().sum().backward()
    return [out.detach(), x.grad, *(parameter.grad for parameter in model.parameters())]


@pytest.mark.parametrize("relative_bias", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("kind", ["fused", "blocked"])
def test_every_implementation_gives_the_same_gradients(kind, relative_bias, dropout, monkeypatch):
    monkeypatch.setattr(blocked, "QUERY_BLOCK", 16)
    expected = gradients("plain", relative_bias, dropout)
    assert len(expected) == (2 + 2 * 5 if relative_bias else 2 + 2 * 3)
    for given, wanted in zip(gradients(kind, relative_bias, dropout), expected, strict=True):
        assert wanted.abs().max() > 0
        torch.testing.assert_close(given, wanted, rtol=1e-9, atol=1e-9 * float(wanted.abs().max()))


@pytest.mark.parametrize(
    ("targets", "contexts"), [(None, 0), ((20, 0, 5, 15, 1), 0), ((20, 0, 5, 10, 0), 2), (None, 2)]
)
def test_the_operator_that_makes_the_bias_equals_plain_attention(targets, contexts):
    """Of float32, and plain attention in float64; without a tensor of the bias, as no group is made."""
    config = ModelConfig(heads=2, qk_dim=4, value_dim=6, max_items=80, time_buckets=32)
    torch.manual_seed(1)
    layer = Attention(config)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
    times = torch.cat([torch.randint(0, 10**6, (n,)).sort().values for n in LENGTHS])
    sequences = Sequences(offsets_of(torch.tensor(LENGTHS)), times, LENGTHS, targets, contexts)
    inputs = [torch.randn(sequences.total, 2, width) for width in (4, 4, 6)]
    grad = torch.randn(sequences.total, 12)
    found = []
    for kind, dtype in ((FusedAttention, torch.float32), (PlainAttention, torch.float64)):
        layer, attention = layer.to(dtype), kind(sequences, config)
        leaves = [x.to(dtype).requires_grad_() for x in inputs]
        out = attention.attend(*leaves, layer)
        found.append([out, *torch.autograd.grad(out, [*leaves, *layer.parameters()], grad.to(dtype))])
        assert "groups" not in vars(attention)
    for given, wanted in zip(*found, strict=True):
        assert wanted.abs().max() > 0
        torch.testing.assert_close(given.double(), wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()))


def test_thresholds_give_the_same_buckets():
    config = ModelConfig(time_buckets=128)
    least = time_buckets.thresholds(128)
    edges = least[1:][least[1:] < 2**62]
    drawn = 2 ** (torch.rand(10_000, dtype=torch.float64) * 60)
    seconds = torch.cat([edges, edges - 1, edges + 1, drawn.long(), torch.tensor([-5, 0, 1])])
    found = torch.searchsorted(least, seconds, right=True) - 1
    assert torch.equal(found, time_buckets.time_bucket(seconds, config).long())


def test_blocked_attention_of_targets_is_plain():
    """Contextual tokens and targets have masks that the blocks do not know."""
    sequences = Sequences(offsets_of(torch.tensor([5, 3])), torch.zeros(8, dtype=torch.int64), (5, 3), (2, 1))
    assert base.implementation(sequences, "blocked") is PlainAttention
    assert base.implementation(sequences, "fused") is FusedAttention


@pytest.mark.parametrize("targets", [None, (2, 1)])
def test_the_kernels_are_called_as_the_operators_are(targets):
    """Without a bias their operator is there on a CPU too: CUDA is not needed to see that the arguments are right."""
    sequences = Sequences(offsets_of(torch.tensor([5, 3])), torch.zeros(8, dtype=torch.int64), (5, 3), targets)
    config = ModelConfig(heads=2, qk_dim=4, value_dim=4, max_items=8, relative_bias=False)
    torch.manual_seed(0)
    q, k, v = (torch.randn(8, 2, 4) for _ in range(3))
    layer = Attention(config)
    expected = PlainAttention(sequences, config).attend(q, k, v, layer)
    assert expected.abs().max() > 0
    torch.testing.assert_close(KernelAttention(sequences, config).attend(q, k, v, layer), expected)


def test_on_cuda_the_kernels_stand_in_for_fused_attention(monkeypatch):
    on_cuda = SimpleNamespace(times_L=SimpleNamespace(device=torch.device("cuda")), causal=True)
    for there, causal, expected in (
        (True, False, KernelAttention),
        (False, True, blocked.BlockedAttention),
        (False, False, PlainAttention),
    ):
        monkeypatch.setattr(kernels, "available", lambda _, there=there: there)
        on_cuda.causal = causal
        assert base.implementation(on_cuda, "fused") is expected


def test_on_npu_the_kernels_stand_in_where_there_are_any(monkeypatch):
    """Else fused attention makes the bias as a tensor."""
    on_npu = SimpleNamespace(times_L=SimpleNamespace(device=torch.device("npu")), causal=True)
    for there, expected in ((True, KernelAttention), (False, FusedAttention)):
        monkeypatch.setattr(kernels, "available", lambda _, there=there: there)
        assert base.implementation(on_npu, "fused") is expected
