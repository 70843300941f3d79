"""Values of a user's own columns, from text: times, flags, and the actions behind labels and ratings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gr_model.data.interactions import DataError, rating_tasks
from gr_model.data.own_tables import SEPARATOR

MICROSECONDS = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
NUMBER = r"^[+-]?[0-9]+$"
FRACTION = r"^[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?$"
EARLIEST = int(datetime(1900, 1, 1, tzinfo=timezone.utc).timestamp()) * 1_000_000
RECENT = int(datetime(1990, 1, 1, tzinfo=timezone.utc).timestamp()) * 1_000_000
LATEST = int(datetime(2200, 1, 1, tzinfo=timezone.utc).timestamp()) * 1_000_000
MOST_ACTIONS = 1 << 12
FLAGS = {"0": 0, "1": 1, "false": 0, "true": 1, "no": 0, "yes": 1, "f": 0, "t": 1, "0.0": 0, "1.0": 1}
Faults = dict[int, str]  # by row of the batch; the first of each


def times(array: pa.Array, name: str, unit: str, faults: Faults) -> np.ndarray:
    """[rows] int64: microseconds since 1970, UTC where a text names no zone."""
    found = _times_at_once(array, unit)
    if found is None:
        found = np.array([_time(text, name, unit, row, faults) for row, text in enumerate(array.to_pylist())], np.int64)
    for row in np.flatnonzero((found < EARLIEST) | (found >= LATEST)):
        text = array[int(row)].as_py()
        early = found[row] < EARLIEST
        faults.setdefault(int(row), f"{name} {text!r} is {'before 1900' if early else 'after 2199'}{_hint(text, unit)}")
    return found


def _times_at_once(array: pa.Array, unit: str) -> np.ndarray | None:
    """None where the values are of several forms, or one of none."""
    try:
        if pc.all(pc.match_substring_regex(array, NUMBER)).as_py() is not False:
            return _scaled(pc.cast(array, pa.int64()).to_numpy(zero_copy_only=False), unit)
        if pc.all(pc.match_substring_regex(array, FRACTION)).as_py():
            return np.rint(pc.cast(array, pa.float64()).to_numpy(zero_copy_only=False) * MICROSECONDS[unit]).astype(np.int64)
    except pa.ArrowInvalid:
        return None
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return pc.cast(pc.cast(array, kind), pa.int64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            continue
    return None


def _scaled(numbers: np.ndarray, unit: str) -> np.ndarray:
    if unit == "ns":
        return numbers // 1000
    scale = int(MICROSECONDS[unit])
    return np.clip(numbers, -(1 << 62) // scale, (1 << 62) // scale) * scale


def _time(text: str, name: str, unit: str, row: int, faults: Faults) -> int:
    try:
        return int(max(-9e18, min(9e18, float(text) * MICROSECONDS[unit])))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return round(moment.timestamp() * 1_000_000)
    except ValueError:
        what = f"is no time: {text!r}; expected a whole number ({unit}) or ISO 8601 such as 2024-03-01T12:00:00Z"
        faults.setdefault(row, f"{name} {what}" if text else f"empty {name}")
        return 0


def _hint(text: str, unit: str) -> str:
    try:
        fits = [other for other, scale in MICROSECONDS.items() if RECENT < float(text) * scale < LATEST]
    except ValueError:
        return ""
    return f" in {unit}; is it in {fits[0]}? data.time_unit={fits[0]}" if fits else f" in {unit}"


def flags(array: pa.Array, name: str, faults: Faults) -> np.ndarray:
    """[rows] int64 of 0 and 1."""
    at = pc.index_in(pc.utf8_lower(array), pa.array(list(FLAGS))).fill_null(-1).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(at < 0):
        faults.setdefault(int(row), f"{name} must be 0 or 1, got {array[int(row)].as_py()!r}")
    return np.array([*FLAGS.values(), 0], np.int64)[at]


class Labels:
    """An action is a set of labels; its number is the order in which it first came."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.code_of: dict[frozenset[str], int] = {}

    def codes(self, array: pa.Array, faults: Faults) -> np.ndarray:
        encoded = array.dictionary_encode()
        sets = [frozenset(filter(None, map(str.strip, text.split(SEPARATOR)))) for text in encoded.dictionary.to_pylist()]
        return _numbered(self.name, self.code_of, sets)[encoded.indices.to_numpy()]

    def meaning(self) -> tuple[tuple[float, ...], dict[str, np.ndarray]]:
        names = dict.fromkeys(label for action in self.code_of for label in sorted(action))
        return tuple(map(float, range(len(self.code_of)))), {
            name: np.array([name in action for action in self.code_of]) for name in names
        }


class Ratings:
    """An action is a number."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.code_of: dict[float, int] = {}

    def codes(self, array: pa.Array, faults: Faults) -> np.ndarray:
        encoded = array.dictionary_encode()
        numbers = [_rating(text) for text in encoded.dictionary.to_pylist()]
        at = encoded.indices.to_numpy()
        wrong = np.array([number is None for number in numbers], bool)[at]
        for row in np.flatnonzero(wrong):
            faults.setdefault(int(row), f"{self.name} is not a number: {array[int(row)].as_py()!r}")
        known = [number for number in numbers if number is not None]
        codes = iter(_numbered(self.name, self.code_of, known).tolist())
        return np.array([0 if number is None else next(codes) for number in numbers], np.int64)[at]

    def meaning(self) -> tuple[tuple[float, ...], dict[str, np.ndarray]]:
        return tuple(self.code_of), rating_tasks(tuple(self.code_of))


class Flags:
    """An action is a number whose bits are the flags, in the order in which the columns are named."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def meaning(self) -> tuple[tuple[float, ...], dict[str, np.ndarray]]:
        masks = np.arange(1 << len(self.names))
        return tuple(masks.astype(float).tolist()), {
            name: (masks >> bit & 1).astype(bool) for bit, name in enumerate(self.names)
        }


def _rating(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None


def _numbered(name: str, code_of: dict, values: list) -> np.ndarray:  # type: ignore[type-arg]
    codes = np.array([code_of.setdefault(value, len(code_of)) for value in values], np.int64)
    if len(code_of) > MOST_ACTIONS:
        raise DataError(
            f"column {name} has more than {MOST_ACTIONS} different actions\n"
            "  next: the same command with data.actions naming a column of what users did, such as view or buy"
        )
    return codes
