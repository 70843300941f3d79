"""The registry of attention implementations, the settings, the dispatch and the documentation agree."""

import inspect
import re
from pathlib import Path

import pytest
import torch

from gr_model.config import ConfigError, ModelConfig, override, presets, settings
from gr_model.config.attention import CHOICES, IMPLEMENTATIONS
from gr_model.model.attention import base
from gr_model.model.attention.base import BatchAttention
from gr_model.model.jagged import offsets_of
from gr_model.model.sequences import Sequences

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "gr_model/model/attention"


def batch(targets: tuple[int, ...] | None) -> Sequences:
    return Sequences(offsets_of(torch.tensor([5, 3])), torch.zeros(8, dtype=torch.int64), (5, 3), targets)


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_every_line_names_an_implementation(name):
    implementation = base.load(name)
    assert issubclass(implementation, BatchAttention) and not inspect.isabstract(implementation)


def test_every_implementation_has_a_line():
    written = {
        (path.stem, found)
        for path in MODULES.glob("*.py")
        for found in re.findall(r"^class (\w+)\(BatchAttention\)", path.read_text(), re.M)
    }
    assert written == {(line.module, line.class_name) for line in IMPLEMENTATIONS.values()}


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_a_setting_is_a_choice_of_the_registry(name):
    assert settings.CHOICES["model.attention"] == CHOICES and ModelConfig().attention in CHOICES
    base_config = presets.get("ml-100k-retrieval")
    if IMPLEMENTATIONS[name].selectable:
        assert override(base_config, [f"model.attention={name}"]).model.attention == name
    else:
        with pytest.raises(ConfigError, match=", ".join(CHOICES)):
            override(base_config, [f"model.attention={name}"])


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("targets", [None, (2, 1)])
def test_every_choice_is_dispatched(name, targets):
    chosen = base.for_batch(batch(targets), ModelConfig(attention=name))
    assert chosen.fallback(batch(targets)) is None
    assert type(chosen) is base.load(name) or base.load(name).fallback(batch(targets)) is not None


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_is_documented(name):
    pages = "".join((ROOT / "docs" / page).read_text() for page in ("training.md",))
    default = ModelConfig().attention
    assert name == default or f"model.attention={name}" in pages or f"`{name}`" in pages
