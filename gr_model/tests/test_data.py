import pytest

from gr_model import data, train
from gr_model.data import DataError


def test_order_is_by_time_then_by_line(atomic_folder):
    loaded = data.load("ml-100k", atomic_folder.parent)
    a, b = loaded.users
    assert a.items.tolist() == [0, 1, 2] and a.actions.tolist() == [1, 0, 3] and a.times.tolist() == [20, 30, 40]
    assert b.items.tolist() == [1, 2, 0]  # z before x: both at 50, z stands first in the file
    assert (loaded.items, len(loaded.users)) == (3, 2)
    assert a.features.tolist() == [0, 1, 1] and b.features.tolist() == [1, 5, 0]


FAULTS = [
    ("inter", 3, b"a\tx\t3", "expected 4 fields, got 3"),
    ("inter", 2, b"a\tx\tgood\t5", "rating is not a number: 'good'"),
    ("inter", 2, b"a\tx\t6\t5", "rating must be one of 1 to 5, got 6"),
    ("inter", 4, b"a\tx\t3\tnan", "timestamp is not a number: 'nan'"),
    ("inter", 5, b"c\tx\t3\t5", "unknown user_id 'c'"),
    ("inter", 5, b"a\tw\t3\t5", "unknown item_id 'w'"),
    ("inter", 7, b"a\tx\t3\t\xff", "not UTF-8 text"),
    ("user", 4, b"a\t1\tM\tother\t2", "user_id 'a' stands already in line 2"),
    ("user", 4, b"c\told\tM\tother\t2", "age is not a number: 'old'"),
    ("user", 4, b"c\t1\tX\tother\t2", "unknown gender 'X'"),
    ("item", 5, b"\tTitle\t1995\tDrama", "empty item_id"),
]


def put(path, line, text):
    """In place of what stands there, or after the last line."""
    lines = path.read_bytes().rstrip(b"\n").split(b"\n")
    lines[line - 1 : line] = [text]
    path.write_bytes(b"\n".join(lines) + b"\n")


@pytest.mark.parametrize(("name", "line", "text", "reason"), FAULTS)
def test_a_bad_row_is_left_out_and_named(atomic_folder, name, line, text, reason):
    path, said = atomic_folder / f"ml-100k.{name}", []
    whole = data.load("ml-100k", atomic_folder.parent)
    put(path, line, text)
    loaded = data.load("ml-100k", atomic_folder.parent, bad_rows=0.1, say=said.append)
    rows = 11 if name == "inter" else 12  # two users, three films, six ratings
    assert said == [f"left out 1 of {rows} rows; the first: {path}:{line}: {reason}"]
    assert (loaded.items, loaded.feature_sizes) == (whole.items, whole.feature_sizes)
    ratings = [list(zip(u.items, u.actions, u.times, strict=True)) for u in loaded.users]
    before = [list(zip(u.items, u.actions, u.times, strict=True)) for u in whole.users]
    assert sum(map(len, ratings)) == (5 if name == "inter" else 6) and len(ratings) == 2
    assert all(set(now) <= set(then) for now, then in zip(ratings, before, strict=True))
    with pytest.raises(DataError, match=f"1 of {rows} rows are bad, more than the accepted share of 0.05") as caught:
        data.load("ml-100k", atomic_folder.parent, bad_rows=0.05)
    assert f"{path}:{line}: {reason}\n" in str(caught.value) and "data.bad_rows=SHARE" in str(caught.value)


def test_a_user_whose_line_is_bad_goes_with_the_ratings(atomic_folder):
    put(atomic_folder / "ml-100k.user", 2, b"a\told\tM\twriter\t1")
    said = []
    loaded = data.load("ml-100k", atomic_folder.parent, bad_rows=0.4, say=said.append)
    (b,) = loaded.users
    assert b.items.tolist() == [1, 2, 0] and b.features.tolist() == [1, 5, 0]  # the only occupation that is left
    assert said[0].startswith("left out 4 of 11 rows")
    with pytest.raises(DataError) as caught:
        data.load("ml-100k", atomic_folder.parent, bad_rows=0.3)
    lines = [f"ml-100k.{where}" for where in ("user:2", "inter:4", "inter:6", "inter:7")]
    assert [line for line in lines if f"{line}: " in str(caught.value)] == lines


def test_the_setting_reaches_the_command(atomic_folder, tmp_path, capsys):
    put(atomic_folder / "ml-100k.inter", 8, b"a\tx")
    where = ["--data-dir", str(atomic_folder.parent), "--out", str(tmp_path / "out")]
    run = ["--config", "smoke", *where, "train.steps=1", "train.batch=2"]
    assert train.main(run) == 1
    assert "ml-100k.inter:8: expected 4 fields, got 2" in capsys.readouterr().err
    assert train.main([*run, "data.bad_rows=0.1"]) == 0
    assert "left out 1 of 12 rows" in capsys.readouterr().out


def test_missing_file_column_and_data_set(atomic_folder):
    path = atomic_folder / "ml-100k.item"
    path.write_bytes(b"item_id:token\nx\n\xff\n")
    with pytest.raises(DataError, match="ml-100k.item:3: not UTF-8"):
        data.load("ml-100k", atomic_folder.parent)
    path.write_text("item_id:token\n")
    with pytest.raises(DataError, match="ml-100k.item:2: no rows"):
        data.load("ml-100k", atomic_folder.parent)
    path.write_text("id:token\nx\n")
    with pytest.raises(DataError, match="header lacks item_id; it has id"):
        data.load("ml-100k", atomic_folder.parent)
    path.unlink()
    with pytest.raises(DataError, match="no such file; .*fetch-data .*ml-100k"):
        data.load("ml-100k", atomic_folder.parent)
    with pytest.raises(DataError, match="unknown data set 'ml-2k'.*; valid: ml-100k"):
        data.load("ml-2k", atomic_folder.parent)


def test_unknown_feature_lists_the_valid_ones(atomic_folder):
    loaded = data.load("ml-100k", atomic_folder.parent)
    with pytest.raises(DataError, match="no user feature income; valid: gender, age, occupation"):
        loaded.choose_features(["income"])
