import pytest

from gr_model import data
from gr_model.data import DataError


def test_order_is_by_time_then_by_line(atomic_folder):
    loaded = data.load("ml-100k", atomic_folder.parent)
    a, b = loaded.users
    assert a.items.tolist() == [0, 1, 2] and a.actions.tolist() == [1, 0, 3] and a.times.tolist() == [20, 30, 40]
    assert b.items.tolist() == [1, 2, 0]  # z before x: both at 50, z stands first in the file
    assert (loaded.items, len(loaded.users)) == (3, 2)
    assert a.features.tolist() == [0, 1, 1] and b.features.tolist() == [1, 5, 0]


@pytest.mark.parametrize(
    ("name", "line", "text", "reason"),
    [
        ("inter", 3, "a\tx\t3", "expected 4 fields, got 3"),
        ("inter", 2, "a\tx\tgood\t5", "rating is not a number: 'good'"),
        ("inter", 2, "a\tx\t6\t5", "rating must be one of 1 to 5, got 6"),
        ("inter", 4, "a\tx\t3\tnan", "timestamp is not a number: 'nan'"),
        ("inter", 5, "c\tx\t3\t5", "unknown user_id 'c'"),
        ("inter", 5, "a\tw\t3\t5", "unknown item_id 'w'"),
        ("user", 3, "a\t1\tM\tother\t2", "user_id 'a' stands already in line 2"),
        ("user", 2, "a\told\tM\tother\t2", "age is not a number: 'old'"),
        ("item", 2, "\tTitle\t1995\tDrama", "empty item_id"),
    ],
)
def test_malformed_line_is_named(atomic_folder, name, line, text, reason):
    path = atomic_folder / f"ml-100k.{name}"
    lines = path.read_text().split("\n")
    lines[line - 1] = text
    path.write_text("\n".join(lines))
    with pytest.raises(DataError) as caught:
        data.load("ml-100k", atomic_folder.parent)
    assert str(caught.value) == f"{path}:{line}: {reason}"


def test_missing_file_column_and_data_set(atomic_folder):
    path = atomic_folder / "ml-100k.item"
    path.write_bytes(b"item_id:token\nx\n\xff\n")
    with pytest.raises(DataError, match="ml-100k.item:3: not UTF-8"):
        data.load("ml-100k", atomic_folder.parent)
    path.write_text("id:token\nx\n")
    with pytest.raises(DataError, match="header lacks item_id; it has id"):
        data.load("ml-100k", atomic_folder.parent)
    path.unlink()
    with pytest.raises(DataError, match="no such file; fetch it: inv fetch-data ml-100k"):
        data.load("ml-100k", atomic_folder.parent)
    with pytest.raises(DataError, match="unknown data set 'ml-2k'; valid: ml-100k"):
        data.load("ml-2k", atomic_folder.parent)


def test_unknown_feature_lists_the_valid_ones(atomic_folder):
    loaded = data.load("ml-100k", atomic_folder.parent)
    with pytest.raises(DataError, match="no user feature income; valid: gender, age, occupation"):
        loaded.choose_features(["income"])
