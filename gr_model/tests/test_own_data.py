"""A user's own files against plain Python, in every format; what is wrong in one is told with its line."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gr_model import data
from gr_model.config import DataConfig
from gr_model.data import DataError, fingerprint, own, own_tables, own_values, shards
from gr_model.tests import own_files

TABLE = own_files.rows()
FORMATS = ("a.csv", "a.tsv", "a.csv.gz", "a.parquet", "a.jsonl", "a.jsonl.gz", "a.ndjson")


def load(path: Path, say=lambda line: None, bad_rows: float = 0.0, **settings) -> data.Interactions:
    own_config = DataConfig(path=str(path), **{"time_unit": "ms", **settings})
    return data.load("own", path.parent / "data", bad_rows, say, own=own_config)


def item_names(loaded: data.Interactions) -> list[str]:
    return pq.read_table(loaded.item_ids)["item"].to_pylist()


def read_back(loaded: data.Interactions) -> list[list[tuple[str, int, int]]]:
    names = item_names(loaded)
    assert len(names) == loaded.items
    return [list(zip([names[i] for i in u.items], u.times.tolist(), u.actions.tolist())) for u in loaded.users]


def labels_of(loaded: data.Interactions, action: int) -> set[str]:
    return {name for name, of_action in loaded.tasks.items() if of_action[action]}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("text_times", [False, True])
def test_every_format_gives_the_same_histories(name: str, text_times: bool, tmp_path: Path) -> None:
    path = own_files.write(tmp_path / name, TABLE, delimiter="\t" if "tsv" in name else ",", text_times=text_times)
    loaded = load(path, actions=("event",), features=("country",))
    want = own_files.histories(TABLE, "event")
    got = read_back(loaded)
    assert [[row[:2] for row in history] for history in got] == [[r[:2] for r in h] for h in want.values()]
    for mine, theirs in zip(got, want.values(), strict=True):
        for (_, _, action), (_, _, event) in zip(mine, theirs, strict=True):
            assert labels_of(loaded, action) == {label for label in event.split("|") if label}
    countries = {row["user"]: row["country"] for row in TABLE}
    codes = [int(user.features[0]) for user in loaded.users]
    assert loaded.feature_sizes == {"country": len(set(countries.values())) + 1}
    first = list(dict.fromkeys(countries[user] for user in want))
    assert codes == [first.index(countries[user]) for user in want]
    assert set(loaded.tasks) == {"view", "like", "buy"}


def test_ratings_and_flags_and_nothing(tmp_path: Path) -> None:
    path = own_files.write(tmp_path / "a.csv", TABLE)
    rated = load(path, actions=("stars",), action_kind="ratings")
    for history, want in zip(rated.users, own_files.histories(TABLE, "stars").values(), strict=True):
        assert [rated.action_values[a] for a in history.actions] == [stars for _, _, stars in want]
    assert {name: labels.tolist() for name, labels in rated.tasks.items()} == {
        "like": [value >= 4 for value in rated.action_values],
        "love": [value >= 5 for value in rated.action_values],
        "dislike": [value <= 2 for value in rated.action_values],
    }
    flagged = load(path, actions=("click", "like"))
    for history, want in zip(flagged.users, own_files.histories(TABLE, "click", "like").values(), strict=True):
        found = [labels_of(flagged, action) for action in history.actions]
        assert found == [{n for n, flag in (("click", c), ("like", k)) if flag} for _, _, c, k in want]
    assert len(flagged.action_values) == 4
    bare = load(path)
    assert bare.action_values == (1.0,) and list(bare.tasks) == ["seen"] and bare.feature_sizes == {}


def test_a_users_first_row_says_the_feature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the file, over several batches, whatever later rows say; a bad row says nothing."""
    monkeypatch.setattr(own_tables, "ROWS", 2)
    rows = [("a", "de"), ("", "xx"), ("b", "fr"), ("a", "us"), ("c", "de"), ("b", "us"), ("c", "fr")]
    lines = [json.dumps({"user": u, "item": "x", "time": 9 - n, "land": land}) for n, (u, land) in enumerate(rows)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    loaded = load(tmp_path / "a.jsonl", features=("land",), bad_rows=0.2)
    assert [user.features.tolist() for user in loaded.users] == [[0], [1], [0]]
    assert loaded.feature_sizes == {"land": 3}


def test_rare_users_and_items_are_left_out(tmp_path: Path) -> None:
    table = [*TABLE, {**TABLE[0], "user": "rare"}, {**TABLE[0], "item": "999"}]
    loaded = load(own_files.write(tmp_path / "a.csv", table), at_least=3)
    want = own_files.histories(table, at_least=3)
    assert "rare" not in want and "999" not in item_names(loaded)
    assert [[row[:2] for row in history] for history in read_back(loaded)] == list(want.values())


def test_a_folder_of_files_is_one_data_set(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    own_files.write(folder / "part-0.parquet", TABLE[:70])
    own_files.write(folder / "part-1.parquet", TABLE[70:])
    (folder / "_SUCCESS").write_text("")
    loaded = load(folder)
    assert [[r[:2] for r in h] for h in read_back(loaded)] == list(own_files.histories(TABLE).values())
    (folder / "more.csv").write_text("user\n")
    with pytest.raises(DataError, match="has files of several kinds: csv, parquet"):
        load(folder, at_least=2)


def test_types_of_parquet_become_what_a_csv_has(tmp_path: Path) -> None:
    """Whole numbers, numbers that a missing one has made floats, categories, times with a zone, lists, truth values."""
    moments = pa.array([1_700_000_000_000, 1_700_000_001_000], pa.timestamp("ms", "Europe/Berlin"))
    table = pa.table(
        {
            "user": pa.array([7.0, 7.0]),
            "item": pa.array(["x", "y"]).dictionary_encode(),
            "time": moments,
            "event": pa.array([["view", "buy"], []], pa.list_(pa.string())),
            "click": pa.array([True, False]),
            "like": pa.array([0, 1], pa.int8()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    loaded = load(tmp_path / "a.parquet", actions=("event",))
    (user,) = loaded.users
    assert item_names(loaded) == ["x", "y"] and user.times.tolist() == [1_700_000_000, 1_700_000_001]
    assert [labels_of(loaded, a) for a in user.actions] == [{"view", "buy"}, set()]
    flagged = load(tmp_path / "a.parquet", actions=("click", "like"))
    assert [labels_of(flagged, a) for a in flagged.users[0].actions] == [{"click"}, {"like"}]
    assert pq.read_table(shards_of(flagged) / "shard-00000.parquet")["user"].to_pylist() == ["7"]


def shards_of(loaded: data.Interactions) -> Path:
    assert loaded.item_ids is not None
    return loaded.item_ids.parent


@pytest.mark.parametrize(
    ("texts", "unit", "seconds"),
    [
        (["0", "86400"], "s", [0, 86400]),
        (["1700000000.25", "1700000000"], "s", [1700000000, 1700000000]),
        (["1.7e9", "5"], "s", [1700000000, 5]),
        (["1700000000999"], "ms", [1700000000]),
        (["1700000000999999"], "us", [1700000000]),
        (["1700000000999999999"], "ns", [1700000000]),
        (["2024-03-01", "2024-03-01 00:00:01"], "s", [1709251200, 1709251201]),
        (["2024-03-01T01:00:00+01:00", "2024-03-01T00:00:01.5Z"], "s", [1709251200, 1709251201]),
        (["2024-03-01T00:00:00Z", "1709251201", "2024-03-01 00:00:02"], "s", [1709251200, 1709251201, 1709251202]),
    ],
)
def test_times(texts: list[str], unit: str, seconds: list[int]) -> None:
    faults: dict[int, str] = {}
    found = own_values.times(pa.array(texts), "time", unit, faults)
    assert (found // 1_000_000).tolist() == seconds and faults == {}


HEAD = "user,item,time,event,click,like\n"
GOOD = "a,x,1700000000,view,1,0\n" * 3
BAD = [
    (",x,1,view,1,0", "empty user"),
    ("a,,1,view,1,0", "empty item"),
    ("a,x,,view,1,0", "empty time"),
    ("a,x,yesterday,view,1,0", "time is no time: 'yesterday'; expected a whole number (s) or ISO 8601"),
    ("a,x,1700000000000,view,1,0", "time '1700000000000' is after 2199 in s; is it in ms? data.time_unit=ms"),
    ("a,x,1,view,2,0", "click must be 0 or 1, got '2'"),
    ("a,x,1,view,1", "expected 6 fields, got 5"),
    ("a,x,1,view,1,0,7", "expected 6 fields, got 7"),
    (b"\xff,x,1,view,1,0", "user is not UTF-8 text: b'\\xff'"),
]


@pytest.mark.parametrize(("line", "reason"), BAD)
def test_a_bad_row_is_left_out_and_named(line: str | bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    line = line.encode() if isinstance(line, str) else line
    path.write_bytes(HEAD.encode() + GOOD.encode() + b"\n" + line + b"\n" + GOOD.encode() + b"\n")
    said: list[str] = []
    settings = {"time_unit": "s", "actions": ("click", "like")}
    loaded = load(path, said.append, 0.2, **settings)
    assert sum(map(len, loaded.users)) == 6
    assert any(f"left out 1 of 9 rows; the first: {path}:6: {reason}" in line for line in said), said
    with pytest.raises(DataError, match=re.escape(f"{path}:6: {reason}")):
        load(path, bad_rows=0.01, at_least=2, **settings)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1]", "not a JSON object"),
        ('{"user": "a"', "not a JSON object: "),
        ('{"user": "a", "item": "x"}', "lacks time (data.time); it has user, item"),
        (
            '{"user": {"id": 3}, "item": "x", "time": 1}',
            'user must be text, a number or a list of texts, got {"id": 3}',
        ),
        ('{"user": null, "item": "x", "time": 1}', "empty user"),
    ],
)
def test_a_bad_line_of_json_is_named(line: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    good = '{"user": 5, "item": "x", "time": 1}\n'
    path.write_text(f"{good}\n{line}\n{good}")
    with pytest.raises(DataError, match=re.escape(f"{path}:3: {reason}")):
        load(path)


def test_a_bad_row_of_parquet_is_named_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_tables, "ROWS", 60)
    path = own_files.write(tmp_path / "a.parquet", [*TABLE[:100], {**TABLE[100], "user": None}, *TABLE[101:]])
    with pytest.raises(DataError, match=re.escape(f"{path}:101: empty user")):
        load(path)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"user": "usr"},
            "a.csv:1: there is no column usr (data.user); it has user, item, time, event, click, like\n"
            "  next: the same command with data.user=user",
        ),
        ({"features": ("Event",)}, "(data.features); it has"),
        ({"delimiter": ";"}, "a.csv:1: the header has one column between ';'"),
    ],
)
def test_a_column_that_is_not_there(settings: dict, told: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEAD + GOOD)
    with pytest.raises(DataError, match=re.escape(told)):
        load(tmp_path / "a.csv", **settings)


def test_another_delimiter_is_found_in_the_header(tmp_path: Path) -> None:
    path = own_files.write(tmp_path / "a.csv", TABLE, delimiter=";")
    with pytest.raises(DataError, match=re.escape("next: the same command with 'data.delimiter=;'")):
        load(path)
    assert len(load(path, delimiter=";").users) == len(own_files.histories(TABLE))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("line", "after"),
    [
        ('"a,x,1,view,1,0', 5000),  # over the file's end
        ('a,x,1,"view,1,0', 5000),
        ('a,x,1,"view,1,0', 300_000),  # over the end of a block
        ('a,x,1,view,1,"0', 3),
    ],
)
def test_a_quote_that_is_not_closed_swallows_no_rows(line: str, after: int, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / ("a.csv.gz" if packed else "a.csv")
    more = "b,y,1700000001,buy,0,1\n"
    text = f'{HEAD}{GOOD}a,the "x",2,view,1,0\n{line}\n{more * after}b,y,1,"b""u",0,1\n{more}'
    (gzip.open if packed else open)(path, "wb").write(text.encode())
    with pytest.raises(DataError, match=re.escape(f"{path}:6: the line ends inside a quoted value")) as told:
        load(path, bad_rows=0.5, time_unit="s", actions=("event",))
    assert "next: close the quote" in str(told.value)


def test_quotes_that_are_closed_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f'{HEAD}"a","x, ""y""",1,view,1,0\r\na,7" z,2,view,1,0\r\n\r\na,"",3,view,1,0')
    with pytest.raises(DataError, match=re.escape("a.csv:5: empty item")):
        load(tmp_path / "a.csv", time_unit="s")
    loaded = load(tmp_path / "a.csv", bad_rows=0.5, time_unit="s")
    assert item_names(loaded) == ['x, "y"', '7" z']


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("no.csv", None, "no.csv: no such file\n  next: the same command with data.path=FILE"),
        ("a.xlsx", "x", "a.xlsx: is of no kind that can be read; valid: .csv, .tsv"),
        ("a.parquet", "x", "a.parquet: not readable as Parquet"),
        ("a.csv", HEAD, "the data set has no rows"),
        ("a.csv", "", "a.csv:1: the first line is empty, and the names of the columns stand there"),
        (
            "a.csv",
            "user,item,time,item\na,x,1,y\n",
            "a.csv:1: there is more than one column item (data.item)\n",
        ),
        (
            "a.csv",
            GOOD,
            "a.csv:1: there is no column user (data.user), item (data.item), time (data.time); it has a, x,"
            " 1700000000, view, 1, 0\n  next: put a line with the columns' names before it, if that is a row",
        ),
    ],
)
def test_a_file_that_cannot_be_read(name: str, text: str | None, told: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=re.escape(told)):
        load(tmp_path / name)


def test_a_hopeless_file_ends_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_tables, "ROWS", 1000)
    lines = [json.dumps({"user": "a", "item": "x", "time": "soon"}) + "\n"] * 50_000
    (tmp_path / "a.jsonl").write_text("".join(lines))
    with pytest.raises(DataError, match="of 2000 rows are bad"):
        load(tmp_path / "a.jsonl")


def test_a_column_of_ids_is_no_column_of_actions(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEAD + "".join(f"a,x,1,e{n},1,0\n" for n in range(5000)))
    with pytest.raises(DataError, match="column event has more than 4096 different actions"):
        load(tmp_path / "a.csv", actions=("event",))


def test_shards_follow_what_the_file_holds(tmp_path: Path) -> None:
    path = own_files.write(tmp_path / "a.csv", TABLE)
    said: list[str] = []

    def made() -> int:
        return said.count("a.csv: reading a.csv")

    first = load(path, said.append)
    assert made() == 1
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(b"u1,", b"u9,", 1))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # as `cp -p` does: size and time are the old ones
    changed = load(path, said.append)
    assert changed.content != first.content and made() == 2
    os.utime(path, (1, 1))
    assert load(path, said.append).content == changed.content and made() == 2  # another time, the same rows
    path.unlink()
    assert len(load(path, said.append).users) == len(own_files.histories(TABLE)) + 1  # shards serve without it
    assert made() == 2


def test_an_untouched_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = own_files.write(tmp_path / "a.csv", TABLE)
    load(path)
    monkeypatch.setattr(fingerprint, "_sha256", lambda *_: pytest.fail("it was read"))
    load(path)


def test_lines_are_counted_past_those_that_were_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(HEAD + "short\n" + GOOD + "a,x,1\n" + "a,x,soon,view,1,0\n")
    with pytest.raises(DataError) as caught:
        load(path, time_unit="s")
    assert [re.search(r"a.csv:(\d+): ", line)[1] for line in str(caught.value).splitlines()[1:4]] == ["2", "6", "7"]


def test_other_columns_have_other_shards(tmp_path: Path) -> None:
    path = own_files.write(tmp_path / "a.csv", TABLE)
    loaded = load(path), load(path, actions=("event",))
    assert shards_of(loaded[0]) != shards_of(loaded[1])
    assert shards_of(loaded[0]).parent.parent == tmp_path / "data/own"
    assert own.name_of(DataConfig(path=str(path))).startswith("a-")


def test_items_of_a_public_data_set_keep_their_ids(tmp_path: Path) -> None:
    from gr_model.tests import data_files

    table = data_files.random_rows()
    data_files.ml_1m(tmp_path / "ml-1m", table)
    loaded = data.load("ml-1m", tmp_path)
    names = item_names(loaded)
    seen = [[names[i] for i in user.items] for user in loaded.users]
    by_user: dict[object, list] = {}
    for user, item, _, time in table:
        by_user.setdefault(user, []).append((time, str(item)))
    assert seen == [[item for _, item in sorted(mine, key=lambda row: row[0])] for mine in by_user.values()]
    assert shards.read_manifest(shards_of(loaded))["content"] == ""


def test_memory_is_that_of_a_batch(tmp_path: Path) -> None:
    """Arrow's own count of bytes stays far below the file's size."""
    path = tmp_path / "a.csv"
    with path.open("w") as file:
        file.write("user,item,time,note\n")
        for start in range(0, 1_600_000, 100_000):
            file.write("".join(f"u{n % 997},i{n % 89},{n},{'x' * 60}\n" for n in range(start, start + 100_000)))
    before = pa.default_memory_pool().max_memory()
    wanted = DataConfig(path=str(path)).columns
    rows = sum(batch.rows for batch in own_tables.read(path, wanted, "", data.bad_rows.BadRows()))
    assert rows == 1_600_000 and path.stat().st_size > 100 << 20
    assert pa.default_memory_pool().max_memory() - before < 64 << 20


def test_numbers_of_flags_are_bits_in_the_order_of_the_columns() -> None:
    values, tasks = own_values.Flags(("a", "b", "c")).meaning()
    assert values == tuple(map(float, range(8)))
    assert np.flatnonzero(tasks["b"]).tolist() == [2, 3, 6, 7]
