import json

import pytest

from gr_model import config, presets
from gr_model.config import ConfigError


def test_overrides_change_what_they_name_and_nothing_else():
    base = presets.get("ml-100k-retrieval")
    changed = config.override(base, ["model.dim=64", "train.lr=5e-4", "model.contextual=gender,age"])
    differing = {key for key, value in config.keys(changed).items() if value != config.keys(base)[key]}
    assert differing == {"model.dim", "train.lr", "model.contextual"}
    assert (changed.model.dim, changed.train.lr, changed.model.contextual) == (64, 5e-4, ("gender", "age"))


def test_all_faults_at_once_with_the_valid_names():
    with pytest.raises(ConfigError) as caught:
        config.override(presets.get("ml-100k-retrieval"), ["model.dims=3", "train.batch=many", "nonsense"])
    text = str(caught.value)
    assert "did you mean 'model.dim'" in text
    assert "train.batch: expected int, got 'many'" in text
    assert "'nonsense' is not of the form key=value" in text
    assert "retrieval.temperature" in text  # the list of valid keys


def test_unknown_preset_lists_the_valid_ones():
    with pytest.raises(ConfigError, match="valid: ml-100k-retrieval, ml-100k-ranking, ml-1m, "):
        presets.get("ml-1b")


@pytest.mark.parametrize(
    "assignment", ["train.batch=0", "train.lr=nan", "model.dropout=1", "task=guess", "retrieval.mask=none"]
)
def test_values_out_of_range(assignment):
    with pytest.raises(ConfigError, match=assignment.partition("=")[0]):
        config.override(presets.get("ml-100k-retrieval"), [assignment])


def test_round_trip_through_json():
    for base in presets.PRESETS.values():
        assert config.from_json(json.loads(json.dumps(config.to_json(base)))) == base
    with pytest.raises(ConfigError):
        config.from_json({"task": "retrieval", "unknown": 1})
