"""The planted rules against what the generator really draws."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from gr_model import config, data
from gr_model.config import ConfigError, presets
from gr_model.config.synthetic import SyntheticConfig
from gr_model.data import DataError, planted, shards, synthetic
from gr_model.data.zipf import Catalogue
from gr_model.tasks import metrics


def test_the_rule_of_the_next_item_by_counting():
    """Predicted probabilities are calibrated, and sum to 1."""
    data, rule = synthetic.sequences(users=400, items=24, length=12, genres=3)
    predicted, happened = [], []
    for user in data.users:
        for at in (1, 2, 6, 11):
            chance = rule.next_item(user.items[:at])
            np.testing.assert_allclose(chance.sum(), 1)
            predicted.append(chance)
            happened.append(np.arange(24) == user.items[at])
    predicted, happened = np.concatenate(predicted), np.concatenate(happened)
    for low, high in ((0, 0.02), (0.02, 0.1), (0.1, 0.3), (0.3, 0.55), (0.55, 1.0)):
        part = (predicted >= low) & (predicted < high)
        assert part.sum() > 100
        error = np.sqrt((predicted[part] * (1 - predicted[part])).sum()) / part.sum()
        assert abs(predicted[part].mean() - happened[part].mean()) < 4 * error


def test_the_genre_is_inferred_from_what_the_successors_do_not_explain():
    data, rule = synthetic.sequences(users=50, items=40, length=30, genres=4, follow=0.1, skip=0.1)
    sharp = [np.sort(rule.next_item(u.items) @ (np.arange(40)[:, None] % 4 == np.arange(4)))[-1] for u in data.users]
    assert np.median(sharp) > 0.75


def test_the_rule_of_the_signals_by_counting():
    data, rule = synthetic.actions(users=500, items=20, length=20)
    chance = np.concatenate([rule.probabilities(user) for user in data.users])
    labels = np.stack([data.tasks[name][np.concatenate([u.actions for u in data.users])] for name in data.tasks], 1)
    for t in range(8):
        z = (labels[:, t] - chance[:, t]).sum() / np.sqrt((chance[:, t] * (1 - chance[:, t])).sum())
        assert abs(z) < 4
        calibrated = metrics.auc(chance[:, t], labels[:, t])
        assert 0.65 < calibrated < 0.95
        # A rule without the last action is worse where the last action matters.
    shuffled = np.concatenate([1 / (1 + np.exp(-(rule.of_items(u.items)))) for u in data.users])
    assert metrics.auc(shuffled[:, 7], labels[:, 7]) < metrics.auc(chance[:, 7], labels[:, 7]) - 0.02


def test_the_same_seed_gives_the_same_data():
    for make in (synthetic.sequences, synthetic.actions):
        a, b, c = (make(users=5, seed=seed)[0] for seed in (1, 1, 2))
        assert all(
            np.array_equal(x.items, y.items) and np.array_equal(x.actions, y.actions) for x, y in zip(a.users, b.users)
        )
        assert any(not np.array_equal(x.items, y.items) for x, y in zip(a.users, c.users))


def same(a, b):
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("items", "actions", "times", "features"))


@pytest.mark.parametrize("kind", [synthetic.Planted, synthetic.Signals])
def test_a_user_is_the_same_in_any_company(kind, monkeypatch):
    """Alone, in a block with others, and in a data set with more users."""
    monkeypatch.setattr(synthetic, "CELLS", 70)
    rule = kind(SyntheticConfig(users=40, items=30, length=10, shortest=3, seed=5))
    whole = list(rule.all_histories())
    assert len(whole) == 40
    larger = kind(dataclasses.replace(rule.settings, users=10**12))
    picked = larger.histories(np.array([39, 0, 10**11]))
    assert same(picked[0], whole[39]) and same(picked[1], whole[0]) and not same(picked[2], picked[1])
    assert same(rule.histories(np.array([17]))[0], whole[17])
    lengths = np.bincount(
        [len(history) for history in kind(dataclasses.replace(rule.settings, users=800)).all_histories()], minlength=11
    )
    assert lengths[:3].sum() == 0 and stats.chisquare(lengths[3:]).pvalue > 1e-3


def test_the_popularity_follows_zipfs_law():
    """Chi-square against the exact law, down to the rarest; and another exponent does not fit."""
    for exponent in (0.6, 1.0, 1.4):
        rule = synthetic.Signals(SyntheticConfig(users=4000, items=300, length=50, zipf=exponent, seed=3))
        catalogue = rule.catalogue
        count_V = np.bincount(np.concatenate([h.items for h in rule.all_histories()]), minlength=300)
        count_R = count_V[catalogue.item_V]  # one genre: in the order of rank
        expected_R = np.arange(1, 301) ** -exponent
        total = count_R.sum()
        assert total == 200_000
        assert stats.chisquare(count_R, total * expected_R / expected_R.sum()).pvalue > 1e-3
        wrong_R = np.arange(1, 301) ** -(exponent + 0.05)
        assert stats.chisquare(count_R, total * wrong_R / wrong_R.sum()).pvalue < 1e-6


@pytest.mark.parametrize(("items", "genres"), [(7, 7), (23, 4), (5, 1)])
def test_each_genre_has_its_part_of_the_law(items, genres):
    """P(item | genre) is the whole law among the genre's items; draws follow it."""
    catalogue = Catalogue(items, 1.2, genres, seed=1)
    taste_GV = catalogue.probabilities()
    popularity = np.empty(items)
    popularity[np.random.default_rng(1).permutation(items)] = np.arange(1, items + 1) ** -1.2
    for genre in range(genres):
        law = np.where(np.arange(items) % genres == genre, popularity, 0)
        np.testing.assert_allclose(taste_GV[genre], law / law.sum(), atol=1e-12)
        drawn = catalogue.draw(np.array([[genre]]), np.random.default_rng(2).random(20_000))
        count = np.bincount(drawn.ravel(), minlength=items)
        assert count[law == 0].sum() == 0
        if (law > 0).sum() > 1:
            assert stats.chisquare(count[law > 0], 20_000 * (law / law.sum())[law > 0]).pvalue > 1e-3
    edges = catalogue.draw(np.arange(genres)[:, None], np.array([0.0, np.nextafter(1.0, 0)]))
    assert (edges % genres == np.arange(genres)[:, None]).all()


def test_ten_million_items_in_bounded_memory():
    """However many users there are; the rule holds there too."""
    settings = SyntheticConfig(users=10**12, items=10_000_000, length=50, zipf=0.8, genres=50, seed=7)
    tracemalloc.start()
    try:
        rule = synthetic.Planted(settings)
        histories = rule.histories(np.arange(10**11, 10**11 + 2000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * settings.items
    items_US = np.stack([history.items for history in histories])
    assert items_US.min() >= 0 and 5_000_000 < items_US.max() < 10_000_000
    after_one, after_two = rule.successor_V[items_US[:, 1:-1]], rule.successor_V[items_US[:, :-2]]
    now, sure = items_US[:, 2:], after_one != after_two
    for planted_as, chance in ((after_one, 0.5), (after_two, 0.2)):
        found = (now == planted_as)[sure].mean()
        assert abs(found - chance) < 4 * (chance * (1 - chance) / sure.sum()) ** 0.5 + 1e-3  # or by taste


def test_a_large_set_is_read_from_shards_and_is_the_same(tmp_path, monkeypatch):
    settings = SyntheticConfig(users=100, items=50, length=20, shortest=5, seed=2)
    for name in ("planted-sequences", "planted-actions"):
        inside = data.load(name, tmp_path / "none", made=settings)
        with monkeypatch.context() as patch:
            patch.setattr(planted, "IN_MEMORY", 10)
            patch.setattr(shards, "GROUP_ROWS", 300)
            said = []
            first = data.load(name, tmp_path, say=said.append, made=settings)
            again = data.load(name, tmp_path, say=said.append, made=settings)
            other = data.load(name, tmp_path, say=said.append, made=dataclasses.replace(settings, seed=3))
            assert len(said) == 2 and len(list((tmp_path / name).iterdir())) == 2
        assert len(first.users.groups) > 2
        for read in (first, again):
            assert all(same(x, y) for x, y in zip(read.users, inside.users, strict=True))
            assert (read.items, read.action_values, read.feature_sizes) == (
                inside.items,
                inside.action_values,
                inside.feature_sizes,
            )
            assert read.tasks.keys() == inside.tasks.keys()
            assert all(np.array_equal(read.tasks[task], inside.tasks[task]) for task in read.tasks)
        assert not all(same(x, y) for x, y in zip(other.users, inside.users, strict=True))
    assert not (tmp_path / "none").exists()


def test_shards_where_nothing_can_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(planted, "IN_MEMORY", 10)
    (tmp_path / "planted-actions").write_text("a file, not a folder")
    with pytest.raises(DataError, match="GRSTACK_SHARDS"):
        data.load("planted-actions", tmp_path, say=lambda _: None)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("synthetic.users=0", "synthetic.users"),
        ("synthetic.shortest=41", "synthetic.shortest"),
        ("synthetic.follow=0.9", "synthetic.follow"),
        ("synthetic.zipf=-1", "synthetic.zipf"),
        ("synthetic.genres=201", "synthetic.genres"),
    ],
)
def test_settings_that_do_not_fit(setting, said):
    with pytest.raises(ConfigError, match=said):
        config.override(presets.get("smoke"), ["dataset=planted-sequences", setting])
