"""The HSTU layers against the formula written out for one sequence at a time, in float64."""

import numpy as np
import pytest
import torch

from gr_model import hstu
from gr_model.config import ModelConfig
from gr_model.hstu import HSTU, Sequences
from gr_model.jagged import load_operators, offsets_of

load_operators(torch.device("cpu"))


def silu(x):
    return x / (1 + np.exp(-x))


def layer_norm(x, eps):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)


def reference_layer(layer, x, times, config):
    """One sequence; loops over heads, queries and keys."""
    weights = {name: value.detach().double().numpy() for name, value in layer.named_parameters()}
    heads, a, v = config.heads, config.qk_dim, config.value_dim
    mixed = silu(layer_norm(x, config.norm_eps) @ weights["uvqk"])
    u, values, q, k = np.split(mixed, np.cumsum([heads * v, heads * v, heads * a]), axis=1)
    out = np.zeros((len(x), heads * v))
    for head in range(heads):
        for i in range(len(x)):
            for j in range(i + 1):
                bucket = min(int(np.log(np.float32(max(1, times[i] - times[j]))) / 0.301), config.time_buckets - 1)
                bias = weights["bias.position"][i - j] + weights["bias.time"][bucket]
                score = q[i, head * a : (head + 1) * a] @ k[j, head * a : (head + 1) * a] + bias
                out[i, head * v : (head + 1) * v] += (
                    silu(score) / config.max_tokens * values[j, head * v : (head + 1) * v]
                )
    gated = u * layer_norm(out, config.norm_eps)
    return x + gated @ weights["output.weight"].T + weights["output.bias"]


def case(lengths, config, seed=0):
    torch.manual_seed(seed)
    model = HSTU(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)  # so that scores and biases matter
    total = sum(lengths)
    x = torch.randn(total, config.dim)
    times = torch.cat([torch.randint(0, 10**6, (n,)).sort().values for n in lengths])
    return model, x, Sequences(offsets_of(torch.tensor(lengths)), times, tuple(lengths))


# 1: alone; 32, 33: a query block and one more; 70: three blocks; equal lengths; two heads with different dims.
@pytest.mark.parametrize("lengths", [[1], [33, 32, 1], [70, 70, 31, 2], [5, 5, 5]])
@pytest.mark.parametrize(("heads", "qk_dim", "value_dim"), [(1, 8, 8), (2, 4, 6)])
@pytest.mark.parametrize("attention", ["plain", "fused"])
def test_stack_equals_the_formula(lengths, heads, qk_dim, value_dim, attention):
    config = ModelConfig(
        dim=8, heads=heads, qk_dim=qk_dim, value_dim=value_dim, max_items=80, time_buckets=32, attention=attention
    )
    model, x, sequences = case(lengths, config)
    actual = model(x, sequences)
    start = 0
    for n in lengths:
        expected = x[start : start + n].double().numpy()
        times = sequences.times_L[start : start + n].numpy()
        for layer in model.layers:
            expected = reference_layer(layer, expected, times, config)
        np.testing.assert_allclose(actual[start : start + n].detach().numpy(), expected, rtol=2e-4, atol=2e-4)
        start += n


def test_gradients_equal_those_without_query_blocks(monkeypatch):
    config = ModelConfig(dim=8, qk_dim=8, value_dim=8, max_items=80)
    gradients = []
    for block in (7, 1000):
        monkeypatch.setattr(hstu, "QUERY_BLOCK", block)
        model, x, sequences = case([70, 33, 2], config)
        x.requires_grad_()
        model(x, sequences).square().sum().backward()
        gradients.append([x.grad, *(parameter.grad for parameter in model.parameters())])
    for small, whole in zip(*gradients, strict=True):
        assert small.abs().max() > 0
        torch.testing.assert_close(small, whole, rtol=1e-4, atol=1e-4)


def test_sequences_do_not_see_each_other_nor_the_future():
    config = ModelConfig(dim=8, qk_dim=8, value_dim=8, max_items=80)
    model, x, sequences = case([40, 40], config)
    before = model(x, sequences)
    x[25:] += 1.0
    torch.testing.assert_close(model(x, sequences)[:25], before[:25], rtol=0, atol=0)


def test_batch_must_be_ordered():
    with pytest.raises(ValueError, match="longest first"):
        case([2, 3], ModelConfig())


def test_time_buckets_are_logarithmic_and_bounded():
    seconds = torch.tensor([-5, 0, 1, 2, 100, 10**9, 2**62])
    expected = [0, 0, 0, 2, 15, 68, 99]
    assert hstu.time_bucket(seconds, ModelConfig(time_buckets=100)).tolist() == expected


def test_dropout_from_the_host():
    dropout = hstu.Dropout(0.25)
    dropout.from_host = True
    torch.manual_seed(0)
    out = dropout(torch.ones(100_000))
    assert out.unique().tolist() == pytest.approx([0, 1 / 0.75])
    assert out.mean().item() == pytest.approx(1, abs=0.01)
    torch.manual_seed(0)
    assert torch.equal(dropout(torch.ones(100_000)), out)
    assert torch.equal(dropout.eval()(torch.ones(5)), torch.ones(5))


def test_the_fused_operator_gives_the_gradients_of_plain_pytorch():
    results = {}
    for attention in ("plain", "fused"):
        config = ModelConfig(dim=8, heads=2, qk_dim=4, value_dim=6, max_items=80, time_buckets=32, attention=attention)
        model, x, sequences = case([70, 33, 31, 2, 0], config)
        x.requires_grad_()
        model(x, sequences).square().sum().backward()
        results[attention] = [x.grad, *(p.grad for p in model.parameters())]
    for plain, fused in zip(results["plain"], results["fused"], strict=True):
        torch.testing.assert_close(fused, plain, rtol=1e-4, atol=1e-5 * float(plain.abs().max()))
