"""Data sets in the makers' own layout, against plain Python; what is wrong in a file is named by its line."""

from __future__ import annotations

import gzip
import pickle
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gr_model import data
from gr_model.config.synthetic import SyntheticConfig
from gr_model.data import DataError, build, kuairand, planted, shards
from gr_model.tests import data_files

ROWS = data_files.random_rows()
MASKS = data_files.random_rows(values=(0, 1, 3, 64, 129, 255))
KUAIRAND = [(u, i, m, t * 1000 + n) for n, (u, i, m, t) in enumerate(MASKS)]
WRITERS = {
    "ml-1m": (data_files.ml_1m, ROWS),
    "ml-20m": (data_files.ml_20m, ROWS),
    "amzn-beauty": (data_files.amazon_ratings, ROWS),
    "amzn-beauty-reviews": (data_files.amazon_reviews, ROWS),
    "kuairand-pure": (data_files.kuairand, KUAIRAND),
}


def expected(rows: list[data_files.Row], at_least: int = 1) -> list[list[tuple[object, float, int]]]:
    """For each user, in the order of first appearance, (item, value, time) by time, then place in the file."""
    users, items = Counter(row[0] for row in rows), Counter(row[1] for row in rows)
    kept = [row for row in rows if users[row[0]] >= at_least and items[row[1]] >= at_least]
    histories: dict[object, list[tuple[object, float, int]]] = {user: [] for user in users}
    for user, item, value, time in kept:
        histories[user].append((item, value, time))
    return [sorted(history, key=lambda row: row[2]) for history in histories.values() if history]


def check(
    loaded: data.Interactions, rows: list[data_files.Row], at_least: int = 1, ticks: int = 1, scale: float = 1
) -> None:
    want = expected(rows, at_least)
    assert len(loaded.users) == len(want)
    assert data.lengths_of(loaded.users).tolist() == [len(history) for history in want]
    ids: dict[object, int] = {}
    values = np.array(loaded.action_values)
    for user, history in zip(loaded.users, want, strict=True):
        assert user.times.tolist() == [time // ticks for _, _, time in history]
        assert values[user.actions].tolist() == [value * scale for _, value, _ in history]
        for item, (name, _, _) in zip(user.items.tolist(), history, strict=True):
            assert ids.setdefault(name, item) == item
    assert sorted(ids.values()) == list(range(loaded.items))


@pytest.mark.parametrize("name", WRITERS)
def test_rows_of_the_files_become_histories(name: str, tmp_path: Path) -> None:
    write, rows = WRITERS[name]
    write(tmp_path / name, rows)
    loaded = data.load(name, tmp_path)
    check(loaded, rows, 5 if name == "amzn-beauty" else 1, 1000 if "kuai" in name else 1, 0.5 if "20m" in name else 1)
    assert all(len(labels) == len(loaded.action_values) for labels in loaded.tasks.values())


def test_the_filter_of_amazon_leaves_out_some_users_and_items(tmp_path: Path) -> None:
    """Otherwise the test above would prove nothing about it."""
    rare = [(99, 7, 5, 10**9), (3, 777, 5, 10**9)]
    data_files.amazon_ratings(tmp_path / "amzn-beauty", ROWS + rare)
    loaded = data.load("amzn-beauty", tmp_path)
    check(loaded, ROWS + rare, at_least=5)
    assert loaded.items < len({row[1] for row in ROWS + rare})


def test_kuairand_signals_and_features(tmp_path: Path) -> None:
    data_files.kuairand(tmp_path / "kuairand-pure", KUAIRAND)
    loaded = data.load("kuairand-pure", tmp_path)
    assert list(loaded.tasks) == list(kuairand.SIGNALS) and len(loaded.tasks) == 8
    for bit, labels in enumerate(loaded.tasks.values()):
        assert labels.tolist() == [bool(mask >> bit & 1) for mask in range(256)]
    order = sorted({row[0] for row in KUAIRAND})
    texts = [data_files.user_texts(n) for n in range(len(order) - 1)]
    for user, name in zip(loaded.users, dict.fromkeys(row[0] for row in KUAIRAND), strict=True):
        for column, size in enumerate(loaded.feature_sizes.values()):
            kinds = sorted({text[column] for text in texts})
            assert size == len(kinds) + 1
            known = name != order[-1]
            assert user.features[column] == (kinds.index(texts[order.index(name)][column]) if known else size - 1)


def test_kuairand_in_parts(tmp_path: Path) -> None:
    data_files.kuairand(tmp_path / "kuairand-27k", KUAIRAND, "27k", parts=2)
    check(data.load("kuairand-27k", tmp_path), KUAIRAND, ticks=1000)


def test_the_features_of_ml_1m(tmp_path: Path) -> None:
    data_files.ml_1m(tmp_path / "ml-1m", ROWS)
    loaded = data.load("ml-1m", tmp_path)
    order = sorted({row[0] for row in ROWS})
    for user, name in zip(loaded.users, dict.fromkeys(row[0] for row in ROWS), strict=True):
        n = order.index(name)
        assert user.features.tolist() == [1 - n % 2, (0, 1, 6)[n % 3], n % 21]


FAULTS = [
    ("ml-1m", "ratings.dat", 3, "3::7::5", "expected 7 fields, got 5"),
    ("ml-1m", "ratings.dat", 1, "3::7::6::5", "rating must be from 1 to 5, got 6"),
    ("ml-1m", "users.dat", 2, "3::F::x::1::9", "age is not a number: 'x'"),
    ("ml-20m", "ratings.csv", 2, "3,7,good,5", "rating is not a number: 'good'"),
    ("ml-20m", "ratings.csv", 5, "", "userId is not a number: ''"),
    ("amzn-beauty", "ratings_Beauty.csv", 4, "A3X,,5.0,5", "empty item"),
    ("amzn-beauty", "ratings_Beauty.csv", 9, "A3X,B007,5.0,-5", "time must be from 0 to inf, got -5"),
    (
        "kuairand-pure",
        "log_standard_4_22_to_5_08_pure.csv",
        6,
        "1,2,3,4,5,2" + ",0" * 13,
        "is_click must be from 0 to 1, got 2",
    ),
]


@pytest.mark.parametrize(("name", "file", "line", "text", "reason"), FAULTS)
def test_a_bad_row_is_named_by_its_line(name, file, line, text, reason, tmp_path, capsys) -> None:
    write, rows = WRITERS[name]
    write(tmp_path / name, rows)
    path = tmp_path / name / file
    lines = path.read_text().split("\n")
    lines[line - 1] = text
    path.write_text("\n".join(lines))
    with pytest.raises(DataError) as caught:
        data.load(name, tmp_path)
    assert f"1 of {len(rows) + (len(lines) - 1 if file == 'users.dat' else 0)} rows are bad" in str(caught.value)
    assert f"{path}:{line}: {reason}" in str(caught.value)
    assert not (tmp_path / name / "shards").exists()
    assert len(data.load(name, tmp_path, bad_rows=0.5).users) > 0
    assert f"left out 1 of {len(rows)}" in capsys.readouterr().out or file == "users.dat"


def test_bad_reviews(tmp_path: Path) -> None:
    folder = tmp_path / "amzn-beauty-reviews"
    data_files.amazon_reviews(folder, ROWS)
    path = folder / "reviews_Beauty_5.json.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    lines[2] = "{"
    lines[4] = '{"reviewerID": "A", "asin": "B", "overall": 4.5, "unixReviewTime": 5}'
    lines[6] = '{"reviewerID": "A", "overall": 4}'
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    with pytest.raises(DataError) as caught:
        data.load(folder.name, tmp_path)
    for told in (
        ":3: not a JSON object",
        ":5: overall must be one of 1 to 5, got 4.5",
        ":7: lacks asin, unixReviewTime",
    ):
        assert f"{path}{told}" in str(caught.value)
    check(data.load(folder.name, tmp_path, bad_rows=0.1), [row for n, row in enumerate(ROWS) if n not in (2, 4, 6)])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="not readable after line"):
        data.load(folder.name, tmp_path)


def test_missing_files_and_columns(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="ratings.csv: no such file; .*fetch-data .*ml-20m"):
        data.load("ml-20m", tmp_path)
    data_files.ml_20m(tmp_path / "ml-20m", ROWS)
    path = tmp_path / "ml-20m/ratings.csv"
    path.write_text(path.read_text().replace("movieId", "filmId"))
    with pytest.raises(DataError, match=re.escape("ratings.csv:1: header lacks movieId; it has userId, filmId")):
        data.load("ml-20m", tmp_path)


@pytest.fixture
def sharded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> data.Interactions:
    """Several buckets, shards and row groups, of which two are kept in memory."""
    monkeypatch.setattr(build, "BUCKET", 1000)
    monkeypatch.setattr(shards, "GROUP_ROWS", 30)
    monkeypatch.setattr(shards, "SHARD_ROWS", 60)
    monkeypatch.setattr(shards, "CACHED_GROUPS", 2)
    data_files.ml_1m(tmp_path / "ml-1m", ROWS)
    return data.load("ml-1m", tmp_path)


def test_buckets_shards_and_groups_change_nothing_but_the_order(sharded: data.Interactions, tmp_path: Path) -> None:
    assert len(list((tmp_path / "ml-1m/shards").glob("*.parquet"))) >= 2 and len(set(sharded.users.group_of)) >= 3
    whole = [[(value, time) for _, value, time in history] for history in expected(ROWS)]
    got = [[(a + 1, t) for a, t in zip(u.actions.tolist(), u.times.tolist())] for u in sharded.users]
    assert sorted(got) == sorted(whole)
    backwards = [sharded.users[index].items.tolist() for index in range(len(got) - 1, -1, -1)]
    assert backwards[::-1] == [user.items.tolist() for user in sharded.users]
    assert len(sharded.users._cache) == 2


def test_a_view_of_users_on_disk(sharded: data.Interactions) -> None:
    long = data.select(sharded.users, shortest=15, drop=2)
    want = [user[:-2] for user in sharded.users if len(user) >= 17]
    assert 0 < len(want) < len(sharded.users)
    assert [user.items.tolist() for user in long] == [user.items.tolist() for user in want]
    assert data.lengths_of(long).tolist() == [len(user) for user in want]
    assert data.lengths_of(data.select(long, shortest=0, drop=1)).tolist() == [len(user) - 1 for user in want]
    copy = pickle.loads(pickle.dumps(long))
    assert (
        copy[0].times.tolist() == want[0].times.tolist() and copy._cache and not pickle.loads(pickle.dumps(copy))._cache
    )
    in_memory = data.select(list(sharded.users), shortest=15, drop=2)
    assert [user.items.tolist() for user in in_memory] == [user.items.tolist() for user in want]


def test_shards_are_made_once_and_anew_for_other_files(sharded, tmp_path, monkeypatch) -> None:
    made = []
    monkeypatch.setattr(build, "build", lambda *a, original=build.build: made.append(1) or original(*a))
    data.load("ml-1m", tmp_path)
    assert not made
    path = tmp_path / "ml-1m/ratings.dat"
    path.write_text(path.read_text() + "3::7::5::2000000000\n")
    assert data.lengths_of(data.load("ml-1m", tmp_path).users).sum() == len(ROWS) + 1
    assert made
    path.unlink()  # the shards alone are enough
    assert data.lengths_of(data.load("ml-1m", tmp_path).users).sum() == len(ROWS) + 1


def test_a_damaged_shard_is_named(sharded: data.Interactions, tmp_path: Path) -> None:
    shard = tmp_path / "ml-1m/shards/shard-00000.parquet"
    shard.write_bytes(shard.read_bytes()[:100])
    with pytest.raises(DataError, match="shard-00000.parquet: row group 0 is not readable"):
        data.load("ml-1m", tmp_path).users[0]


def test_the_counts_of_the_items(sharded: data.Interactions, tmp_path: Path) -> None:
    counts = np.bincount(np.concatenate([user.items for user in sharded.users]), minlength=sharded.items)
    assert np.load(tmp_path / "ml-1m/shards" / shards.COUNTS).tolist() == counts.tolist()


FOREIGN = {
    "no manifest": {"thesis.txt": "mine"},
    "another manifest": {"manifest.json": '{"mine": 1}'},
    "shards and more": {"manifest.json": '{"format": 0}', "notes.txt": "mine"},
    "a list": {"manifest.json": "[]", "lengths.npy": "mine"},
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("made", [False, True])
def test_shards_take_the_place_of_shards_alone(tmp_path: Path, monkeypatch, kind: str, made: bool) -> None:
    """$GRSTACK_SHARDS/<name> is a place of the user's."""
    name = "planted-sequences" if made else "ml-1m"
    place = tmp_path / "elsewhere" / name
    monkeypatch.setattr("gr_model.data._place", lambda folder, shards="shards": place)
    place.mkdir(parents=True)
    for file, text in FOREIGN[kind].items():
        (place / file).write_text(text)
    with pytest.raises(DataError, match="has files that are not shards, so none are made there\n  next: mv"):
        if made:
            monkeypatch.setattr(planted, "IN_MEMORY", 0)
            data.load(name, tmp_path, made=SyntheticConfig(users=3, length=8, items=20))
        else:
            data_files.ml_1m(tmp_path / "ml-1m", ROWS)
            data.load(name, tmp_path)
    assert {path.name: path.read_text() for path in place.iterdir()} == FOREIGN[kind]


def test_shards_of_an_older_format_are_replaced(tmp_path: Path, monkeypatch) -> None:
    data_files.ml_1m(tmp_path / "ml-1m", ROWS)
    data.load("ml-1m", tmp_path)
    manifest = tmp_path / "ml-1m/shards/manifest.json"
    manifest.write_text(manifest.read_text().replace(f'"format": {shards.FORMAT}', '"format": 0'))
    assert data.lengths_of(data.load("ml-1m", tmp_path).users).sum() == len(ROWS)
