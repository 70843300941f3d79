"""The HSTU layers against the formulas written out in float64, and what a token may see."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gr_model.config import ModelConfig
from gr_model.model.attention import fused, plain, time_buckets
from gr_model.model.hstu import HSTU
from gr_model.model.jagged import load_operators, offsets_of
from gr_model.model.sequences import Sequences
from gr_model.tests import reference

load_operators(torch.device("cpu"))
KINDS = ("plain", "fused")


def case(lengths, config, seed=0, targets=None, contexts=0, dtype=torch.float64):
    torch.manual_seed(seed)
    model = HSTU(config).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)  # so that scores and biases matter
    x = torch.randn(sum(lengths), config.dim, dtype=dtype)
    times = torch.cat([torch.randint(0, 10**6, (n,)).sort().values for n in lengths])
    return model, x, Sequences(offsets_of(torch.tensor(lengths)), times, tuple(lengths), targets, contexts)


def expected(model, x, sequences, config):
    shape = reference.Shape(config.heads, config.qk_dim, config.value_dim, config.max_tokens, config.norm_eps)
    out, start = [], 0
    for row, n in enumerate(sequences.lengths):
        part, times = x[start : start + n].detach().numpy(), sequences.times_L[start : start + n].tolist()
        history = n - (sequences.targets[row] if sequences.targets else 0)
        for layer in model.layers:
            part = reference.layer(part, times, reference.weights_of(layer), shape, history, sequences.contexts)
        out.append(torch.from_numpy(part))
        start += n
    return torch.cat(out)


# 1: alone; 33, 32: a query block and one more; 70: three blocks; 22, 5: groups of the operator; 2 heads of other dims.
@pytest.mark.parametrize("lengths", [[1], [33, 32, 1], [70, 70, 22, 5, 2]])
@pytest.mark.parametrize(("heads", "qk_dim", "value_dim"), [(1, 8, 8), (2, 4, 6)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("concat", [False, True])
def test_stack_equals_the_formula(lengths, heads, qk_dim, value_dim, kind, concat):
    config = ModelConfig(
        dim=8,
        heads=heads,
        qk_dim=qk_dim,
        value_dim=value_dim,
        max_items=80,
        time_buckets=32,
        attention=kind,
        concat_ua=concat,
    )
    model, x, sequences = case(lengths, config)
    torch.testing.assert_close(model(x, sequences), expected(model, x, sequences, config), rtol=1e-10, atol=1e-10)


# Targets in all, in some and in no sequence; contextual tokens that see the history, with and without targets.
@pytest.mark.parametrize(
    ("lengths", "targets", "contexts"),
    [((40, 9, 5), (7, 3, 1), 0), ((40, 12, 3), (7, 0, 3), 0), ((40, 12, 6), (5, 4, 1), 2), ((36, 4), (0, 0), 3)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_stack_with_targets_and_contexts_equals_the_formula(lengths, targets, contexts, kind):
    config = ModelConfig(dim=8, heads=2, qk_dim=4, value_dim=4, max_items=40, time_buckets=32, attention=kind)
    model, x, sequences = case(lengths, config, targets=targets, contexts=contexts)
    torch.testing.assert_close(model(x, sequences), expected(model, x, sequences, config), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_by_finite_differences(kind):
    """Of the tokens and of every parameter, in float64."""
    config = ModelConfig(dim=4, blocks=1, heads=2, qk_dim=2, value_dim=3, max_items=8, time_buckets=16, attention=kind)
    model, x, sequences = case((6, 3), config, targets=(2, 1), contexts=1)
    names, values = zip(*model.named_parameters(), strict=True)

    def run(tokens, *parameters):
        return torch.func.functional_call(model, dict(zip(names, parameters, strict=True)), (tokens, sequences))

    assert torch.autograd.gradcheck(run, (x.requires_grad_(), *(v.detach().requires_grad_() for v in values)))


def test_gradients_equal_those_without_tiles(monkeypatch):
    for kind in KINDS:
        config = ModelConfig(dim=8, qk_dim=8, value_dim=8, max_items=80, attention=kind)
        gradients = []
        for block, ratio in ((7, 0.7), (1000, 0.0)):
            monkeypatch.setattr(plain, "QUERY_BLOCK", block)
            monkeypatch.setattr(fused, "GROUP_RATIO", ratio)
            model, x, sequences = case([70, 33, 2], config)
            x.requires_grad_()
            model(x, sequences).square().sum().backward()
            gradients.append([x.grad, *(parameter.grad for parameter in model.parameters())])
        for small, whole in zip(*gradients, strict=True):
            assert small.abs().max() > 0
            torch.testing.assert_close(small, whole, rtol=1e-10, atol=1e-10)


@st.composite
def batches(draw):
    lengths = sorted(draw(st.lists(st.integers(2, 40), min_size=1, max_size=5)), reverse=True)
    return tuple(lengths), draw(st.integers(0, 2**31))


@settings(max_examples=15, deadline=None)
@given(batches(), st.sampled_from(KINDS), st.data())
def test_no_token_changes_when_the_future_changes(batch, kind, data):
    lengths, seed = batch
    config = ModelConfig(dim=4, qk_dim=4, value_dim=4, max_items=40, attention=kind)
    model, x, sequences = case(lengths, config, seed)
    row = data.draw(st.integers(0, len(lengths) - 1))
    cut = data.draw(st.integers(1, lengths[row] - 1))
    begin = sum(lengths[:row])
    future = slice(begin + cut, begin + lengths[row])
    changed, times = x.clone(), sequences.times_L.clone()
    changed[future] += torch.randn_like(changed[future])
    times[future] += 10**5
    moved = Sequences(sequences.offsets_B1, times, sequences.lengths)
    before, after = model(x, sequences), model(changed, moved)
    outside = torch.ones(len(x), dtype=torch.bool)
    outside[future] = False
    torch.testing.assert_close(after[outside], before[outside], rtol=0, atol=0)
    assert not torch.equal(after[future], before[future])


@settings(max_examples=15, deadline=None)
@given(batches(), st.sampled_from(KINDS), st.booleans(), st.data())
def test_a_target_does_not_change_when_other_targets_change(batch, kind, contextual, data):
    """Nor does the history; and the place of a target among the others means nothing."""
    lengths, seed = batch
    contexts = int(contextual)
    config = ModelConfig(dim=4, qk_dim=4, value_dim=4, max_items=40, attention=kind)
    targets = tuple(data.draw(st.integers(1, length - contexts)) for length in lengths)
    model, x, sequences = case(lengths, config, seed, targets, contexts)
    row = data.draw(st.integers(0, len(lengths) - 1))
    first = sum(lengths[: row + 1]) - targets[row]
    kept = first + data.draw(st.integers(0, targets[row] - 1))
    others = [at for at in range(first, first + targets[row]) if at != kept]
    changed = x.clone()
    changed[others] += torch.randn_like(changed[others])
    before, after = model(x, sequences), model(changed, sequences)
    outside = [at for at in range(len(x)) if at not in others]
    torch.testing.assert_close(after[outside], before[outside], rtol=0, atol=0)
    # Swap the kept target with the first one, their times with them.
    order = list(range(len(x)))
    order[first], order[kept] = kept, first
    swapped = Sequences(sequences.offsets_B1, sequences.times_L[order], lengths, targets, contexts)
    torch.testing.assert_close(model(x[order], swapped)[first], before[kept], rtol=1e-12, atol=1e-12)


def test_batch_must_be_ordered_and_targets_must_fit():
    with pytest.raises(ValueError, match="longest first"):
        case([2, 3], ModelConfig())
    with pytest.raises(ValueError, match="3 targets and 1 contextual tokens in a sequence of 3"):
        case([5, 3], ModelConfig(), targets=(1, 3), contexts=1)
    with pytest.raises(ValueError, match="1 counts of targets for 2 sequences"):
        case([5, 3], ModelConfig(), targets=(1,))


def test_time_buckets_are_logarithmic_and_bounded():
    seconds = torch.tensor([-5, 0, 1, 2, 100, 10**9, 2**62])
    expected = [0, 0, 0, 2, 15, 68, 99]
    assert time_buckets.time_bucket(seconds, ModelConfig(time_buckets=100)).tolist() == expected


def test_the_fused_operator_gives_the_gradients_of_plain_pytorch():
    results = {}
    for kind in KINDS:
        config = ModelConfig(dim=8, heads=2, qk_dim=4, value_dim=6, max_items=80, time_buckets=32, attention=kind)
        model, x, sequences = case([70, 33, 31, 2, 0], config, dtype=torch.float32)
        x.requires_grad_()
        model(x, sequences).square().sum().backward()
        results[kind] = [x.grad, *(p.grad for p in model.parameters())]
    for wanted, found in zip(results["plain"], results["fused"], strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))
