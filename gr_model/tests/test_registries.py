"""A name that is registered in one place is known in all others that must know it."""

import inspect
import re
from pathlib import Path

import pytest

from gr_model.config import Config, ConfigError, settings
from gr_model.config.advice import PLANTED
from gr_model.config.data import OWN
from gr_model.config.presets import PRESETS
from gr_model.data import DATASETS
from gr_model.data.source import Source
from gr_model.data.synthetic import Rule
from gr_model.model.backbone import BACKBONES
from gr_model.report.pages import BACKBONES as SHOWN_BACKBONES
from gr_model.tasks import baselines
from gr_model.tasks.base import Task
from gr_model.tasks.registry import TASKS

ROOT = Path(__file__).resolve().parents[2]
MADE = {name for name, source in DATASETS.items() if isinstance(source, type) and issubclass(source, Rule)}


def fetched() -> set[str]:
    """What `inv fetch-data` knows: the keys of `datasets` in versions.yaml."""
    section = re.search(r"^datasets:\n((?:[ #].*\n|\n)*)", (ROOT / "versions.yaml").read_text(), re.M)
    assert section
    return set(re.findall(r"^  ([\w-]+):", section[1], re.M))


def test_every_data_set_can_be_fetched_or_is_made():
    assert MADE and set(DATASETS) - MADE == fetched()


def test_settings_of_made_data_know_their_names():
    assert set(PLANTED) == MADE


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_is_documented(name):
    assert f"`{name}`" in (ROOT / "docs/training.md").read_text()


@pytest.mark.parametrize("name", DATASETS)
def test_a_data_set_carries_its_own_name(name):
    source = DATASETS[name]
    assert not isinstance(source, Source) or source.name == name


def test_presets_train_what_there_is():
    assert {config.dataset for config in PRESETS.values()} <= {*DATASETS, OWN}


def test_tasks_agree():
    assert tuple(TASKS) == settings.TASKS
    with pytest.raises(ConfigError, match=", ".join(TASKS)):
        Config(task="nothing")
    for task in TASKS.values():
        assert issubclass(task, Task) and not inspect.isabstract(task)
        assert task.__name__ in inspect.getsource(baselines.baseline)


def test_backbones_agree():
    """dcn is no backbone over tokens: the ranking task takes it in place of its model."""
    assert set(settings.CHOICES["model.backbone"]) == {*BACKBONES, "dcn"} == set(SHOWN_BACKBONES)
