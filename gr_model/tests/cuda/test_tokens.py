"""A ranking model whose tokens' vectors and scored rows are Triton's kernels is the model in plain PyTorch.

Without a GPU the interpreter's kernels are asked for on the CPU.
"""

import dataclasses

import numpy as np
import pytest
import torch

from gr_model import config
from gr_model.data.interactions import History
from gr_model.embedding import lookup
from gr_model.model import fused_ops
from gr_model.model.jagged import load_operators
from gr_model.model.preprocess import Preprocess, Tokens, tokens
from gr_model.tasks.ranking import RankingModel

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
load_operators(DEVICE)
MODEL = config.ModelConfig(
    dim=12, heads=2, qk_dim=8, value_dim=8, max_items=9, interleave=True, contextual=("a",), dropout=0.0
)
SETTINGS = config.Config(task="ranking", model=MODEL, ranking=config.RankingConfig(tasks=("a", "b"), held_out=1))


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels' functions that were asked for."""
    calls: list[str] = []
    for name in ("embedded", "scored"):
        asked = getattr(fused_ops, name)
        monkeypatch.setattr(fused_ops, name, lambda *x, name=name, asked=asked: calls.append(name) or asked(*x))
    return calls


def by_kernels(monkeypatch: pytest.MonkeyPatch, wanted: bool) -> None:
    """Of the layers the operators stay out: test_layer.py has them."""
    monkeypatch.setattr(fused_ops, "trains_in_kernels", lambda _: wanted)


def batch(model: config.ModelConfig = MODEL, candidates: int = 0) -> Tokens:
    rng = np.random.default_rng(0)
    histories = [
        History(rng.integers(0, 7, n), rng.integers(0, 3, n), rng.integers(0, 99, n).cumsum(), np.array([n % 4]))
        for n in (5, 9, 2)
    ]
    return tokens(histories, [0], model, DEVICE, candidates)


def run(model: torch.nn.Module, *arguments: object) -> list[torch.Tensor]:
    model.zero_grad()
    out = model(*arguments)
    out.square().sum().backward()
    return [out.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


def test_a_model_for_ranking(called: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model, shown = RankingModel(SETTINGS, 7, 3, [4]).to(DEVICE), batch()
    by_kernels(monkeypatch, True)
    found = run(model, shown)
    assert called == ["embedded", "scored"]
    by_kernels(monkeypatch, False)
    for one, other in zip(found, run(model, shown), strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-5)
    assert called == ["embedded", "scored"]


@pytest.mark.parametrize("why", ["targets", "timestamps", "deterministic", "draws on the host", "looked up already"])
def test_what_stays_with_pytorch(why: str, called: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    by_kernels(monkeypatch, True)
    kind = dataclasses.replace(MODEL, timestamps=("hour",) if why == "timestamps" else ())
    module = Preprocess(kind, 7, 3, [4]).to(DEVICE)
    module.dropout.from_host = why == "draws on the host"
    if why == "deterministic":
        monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    shown = batch(kind, 2 if why == "targets" else 0)
    rows_ID = module.item.weight[shown.items_I] if why == "looked up already" else None
    assert module(shown, rows_ID).shape == (len(shown.source_L), 12)
    assert not called


def test_dropout_of_tokens_goes_by_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    by_kernels(monkeypatch, True)
    module, shown, found = Preprocess(dataclasses.replace(MODEL, dropout=0.5), 7, 3, [4]).to(DEVICE), batch(), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(module(shown))
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
    whole = module.eval()(shown)
    torch.testing.assert_close(found[0], torch.where(found[0] == 0, 0.0, 2 * whole))
    assert isinstance(module.item, lookup.StaticTable)
