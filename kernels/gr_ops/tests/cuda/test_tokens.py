"""What stands before and behind the layers, against its formulas in float64 PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from cuda_cases import ON_GPU
from gr_ops.cuda.tokens import embed, scored

DEVICE = "cuda" if ON_GPU else "cpu"
HALF = torch.bfloat16 if ON_GPU else torch.float16  # the interpreter of Triton 3.2 takes bfloat16's bits for numbers
LENGTHS = (9, 5, 5, 1)
TIMES = 3.0


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def batch(contexts: bool, actions: bool, width: int):
    """Tables in float64; ids, sources and places: items and actions in turns behind a contextual token, few rows."""
    tables = {"table": drawn(7, width), "places": drawn(12, width, seed=1)}
    source, place, items, acted = [], [], 0, 0
    count = len(LENGTHS) if contexts else 0
    whole = sum(n - contexts for n in LENGTHS)
    of_items = sum(-(-(n - contexts) // 2) for n in LENGTHS) if actions else whole
    for sequence, length in enumerate(LENGTHS):
        for at in range(length):
            place.append(at)
            if contexts and not at:
                source.append(sequence)
            elif actions and (at - contexts) % 2:
                source.append(count + of_items + acted)
                acted += 1
            else:
                source.append(count + items)
                items += 1
    if contexts:
        tables["contextual"] = drawn(count, width, seed=2)
    if actions:
        tables["actions"] = drawn(3, width, seed=3)
    ids = {"item": torch.arange(items) * 5 % 7, "action": torch.arange(acted) % 3}
    ids |= {"source": torch.tensor(source), "place": torch.tensor(place)}
    ids["offsets"] = F.pad(torch.tensor(LENGTHS).cumsum(0), (1, 0))
    return tables, ids


def embedded(tables, ids, p=0.0, seed=0):
    return embed.tokens(
        tables.get("contextual"),
        tables["table"],
        ids["item"],
        tables.get("actions"),
        ids["action"],
        tables["places"],
        ids["source"],
        ids["place"],
        ids["offsets"],
        max(LENGTHS),
        TIMES,
        p,
        seed,
    )


def ours(tables, ids):
    leaves = {name: x.float().to(DEVICE).requires_grad_() for name, x in tables.items()}
    return leaves, {name: x.to(DEVICE) for name, x in ids.items()}


@pytest.mark.parametrize("contexts", [False, True])
@pytest.mark.parametrize("actions", [False, True])
@pytest.mark.parametrize("width", [16, 50, 512] if ON_GPU else [16, 50])
@pytest.mark.parametrize("programs", [1, 2, 1000])
def test_embedded(contexts, actions, width, programs, monkeypatch):
    """Of sums of all sequences, of three, and of each by itself."""
    monkeypatch.setattr(embed, "PROGRAMS", programs)
    tables, ids = batch(contexts, actions, width)
    leaves, moved = ours(tables, ids)
    out = embedded(leaves, moved)
    wide = {name: x.clone().requires_grad_() for name, x in tables.items()}
    parts = [wide["contextual"]] if contexts else []
    parts.append(wide["table"][ids["item"]])
    if actions:
        parts.append(wide["actions"][ids["action"]])
    expected = torch.cat(parts)[ids["source"]] * TIMES + wide["places"][ids["place"]]
    grad = drawn(*expected.shape, seed=4)
    out.backward(grad.float().to(DEVICE))
    expected.backward(grad)
    torch.testing.assert_close(out.cpu().double(), expected, rtol=1e-5, atol=1e-5)
    for name, leaf in leaves.items():
        torch.testing.assert_close(leaf.grad.cpu().double(), wide[name].grad, rtol=1e-5, atol=1e-5, msg=name)


def test_dropout_leaves_its_share_and_its_gradient_the_same():
    tables, ids = batch(True, True, 50)
    leaves, moved = ours(tables, ids)
    whole = embedded(leaves, moved)
    found = [embedded(leaves, moved, 0.25, seed) for seed in (5, 5, 2**62 - 1)]
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
    kept = found[0] != 0
    assert 0.6 < float(kept.float().mean()) < 0.9  # of 1,000
    torch.testing.assert_close(found[0], torch.where(kept, whole / 0.75, 0.0))
    (of_places,) = torch.autograd.grad(found[0].sum(), leaves["places"])
    expected = torch.zeros(12, 50, device=DEVICE).index_add(0, moved["place"], kept.float() / 0.75)
    torch.testing.assert_close(of_places, expected)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("width", [16, 50, 512] if ON_GPU else [16, 50])
def test_norm_of_chosen_rows(half, width):
    """Rows far from zero: a norm that forgets the mean is seen."""
    chosen = torch.tensor([1, 4, 5, 30, 2])
    tensors = drawn(40, width) + 3.0, drawn(width, seed=1), drawn(width, seed=2)
    given = [x.float().to(DEVICE).requires_grad_() for x in tensors]
    wide = [x.float().double().requires_grad_() for x in tensors]
    out = scored.norm(given[0], chosen.to(DEVICE), *given[1:], 1e-6, HALF if half else torch.float32)
    expected = F.layer_norm(wide[0][chosen], (width,), *wide[1:], eps=1e-6)
    grad = drawn(*expected.shape, seed=3).to(out.dtype)
    out.backward(grad.to(DEVICE))
    expected.backward(grad.double())
    limit = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[out.dtype]
    for found, right in zip((out, *(x.grad for x in given)), (expected, *(x.grad for x in wide)), strict=True):
        assert float((found.detach().cpu().double() - right.detach()).abs().max()) <= limit * max(
            1.0, float(right.abs().max())
        )
    untouched = torch.ones(40, dtype=torch.bool)
    untouched[chosen] = False
    assert (given[0].grad[untouched.to(DEVICE)] == 0).all()


def test_no_tokens():
    x, weight, bias = (torch.zeros(*size, device=DEVICE).requires_grad_() for size in ((3, 8), (8,), (8,)))
    out = scored.norm(x, torch.zeros(0, dtype=torch.long, device=DEVICE), weight, bias, 1e-6, torch.float32)
    out.sum().backward()
    assert out.shape == (0, 8) and all((leaf.grad == 0).all() for leaf in (x, weight, bias))
