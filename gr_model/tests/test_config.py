import json

import pytest

from gr_model import config
from gr_model.config import ConfigError, presets
from gr_model.config import checks as config_checks


def test_overrides_change_what_they_name_and_nothing_else():
    base = presets.get("ml-100k-retrieval")
    changed = config.override(base, ["model.dim=64", "train.lr=5e-4", "model.contextual=gender,age"])
    differing = {key for key, value in config.keys(changed).items() if value != config.keys(base)[key]}
    assert differing == {"model.dim", "train.lr", "model.contextual"}
    assert (changed.model.dim, changed.train.lr, changed.model.contextual) == (64, 5e-4, ("gender", "age"))


def test_all_faults_at_once_with_the_valid_names():
    with pytest.raises(ConfigError) as caught:
        config.override(
            presets.get("ml-100k-retrieval"), ["model.dims=3", "train.batch=many", "nonsense", "lr=1e-3", "xyz=1"]
        )
    text = str(caught.value)
    assert "did you mean 'model.dim'" in text
    assert "train.batch: expected int, got 'many'" in text
    assert "'nonsense' is not of the form key=value" in text
    assert "unknown key 'lr' (did you mean 'train.lr' or 'embedding.lr'?)" in text
    assert "retrieval.temperature" in text  # the list of valid keys, because xyz is like none


def test_a_key_that_is_nearly_one_needs_no_list_of_all():
    for typo, meant in (
        ("batchsize=4", "train.batch"),
        ("model.drop_out=0", "model.dropout"),
        ("seed=1", "train.seed"),
    ):
        with pytest.raises(ConfigError, match=f"did you mean '{meant}'") as caught:
            config.override(presets.get("smoke"), [typo])
        assert "valid keys" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "settings", "refused"),
    [
        ("ml-100k-ranking", ["retrieval.negatives=7"], "retrieval.negatives"),
        ("ml-100k-retrieval", ["ranking.held_out=3"], "ranking.held_out"),
        ("smoke", ["synthetic.users=9"], "synthetic.users"),
        ("smoke", ["embedding.lr=0.1"], "embedding.lr"),
        ("smoke", ["embedding.kind=hash", "embedding.cache_rows=9"], "embedding.cache_rows"),
        ("smoke", ["embedding.kind=embcache", "embedding.cache_rows=9", "embedding.capacity=4"], "embedding.capacity"),
        ("smoke", ["embedding.kind=sharded", "embedding.initializer=zeros"], "embedding.initializer"),
    ],
)
def test_settings_that_nothing_looks_at_are_refused(name, settings, refused):
    with pytest.raises(ConfigError, match=f"^{refused}: nothing looks at it"):
        config.override(presets.get(name), settings)


def test_settings_count_beside_those_that_they_need():
    made = config.override(
        presets.get("smoke"),
        ["synthetic.users=9", "dataset=planted-sequences", "embedding.lr=0.1", "embedding.kind=hash"],
    )
    assert (made.synthetic.users, made.embedding.lr) == (9, 0.1)


@pytest.mark.parametrize(("device", "fits"), [("cpu", False), ("npu", True), ("cuda", True)])
def test_fused_adam_of_sharded_tables(device, fits):
    """On the CPU fbgemm's own assertion came after all was loaded."""
    made = config.override(presets.get("smoke"), ["embedding.kind=sharded", "embedding.optimizer=adam"])
    if fits:
        config_checks.check_device(made, device, launched=True)
        return
    with pytest.raises(ConfigError, match="embedding.optimizer: .*valid there: adagrad, rowwise_adagrad, sgd, or adam"):
        config_checks.check_device(made, device, launched=True)


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
