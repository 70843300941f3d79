"""One table of interactions in every form that a user's own file may have, and what must come of it in plain Python."""

from __future__ import annotations

import csv
import gzip
import json
import random
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]
COUNTRIES = ("de", "fr", "")
EVENTS = ("view", "view|like", "buy", "")


def rows(users: int = 7, items: int = 11, count: int = 160) -> list[Row]:
    """Times in whole milliseconds that collide now and then; ids as text that must not become numbers."""
    rng = random.Random(9)
    country = {user: rng.choice(COUNTRIES) for user in range(users)}
    made = []
    for _ in range(count):
        user = rng.randrange(users)
        made.append(
            {
                "user": f"u{user}",
                "item": f"{rng.randrange(items):03d}",
                "time": 1_700_000_000_000 + rng.randrange(90) * 250,
                "event": rng.choice(EVENTS),
                "stars": rng.randint(1, 5),
                "click": rng.randint(0, 1),
                "like": rng.randint(0, 1),
                "country": country[user],
            }
        )
    return made


def write(path: Path, table: list[Row], *, delimiter: str = ",", text_times: bool = False) -> Path:
    """As the suffix says."""
    table = [{**row, "time": iso(row["time"])} if text_times else row for row in table]
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(table), path, row_group_size=50)
    elif name.endswith((".jsonl", ".ndjson")):
        _text(path, "".join(json.dumps(row) + "\n" for row in table))
    else:
        lines = [
            delimiter.join(table[0]),
            *(delimiter.join(_cell(v, delimiter) for v in row.values()) for row in table),
        ]
        _text(path, "\n".join(lines) + "\n")
    return path


def iso(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds // 1000, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{milliseconds % 1000:03d}Z"


def histories(table: list[Row], *columns: str, at_least: int = 1) -> dict[str, list[tuple[Any, ...]]]:
    """user -> (item, seconds, *columns) by time, then place in the file; the file's order of users."""
    while_kept = [
        row
        for row in table
        if sum(other["user"] == row["user"] for other in table) >= at_least
        and sum(other["item"] == row["item"] for other in table) >= at_least
    ]
    of: dict[str, list[Row]] = {}
    for row in while_kept:
        of.setdefault(row["user"], []).append(row)
    return {
        user: [(row["item"], row["time"] // 1000, *(row[name] for name in columns)) for row in sorted(mine, key=_time)]
        for user, mine in of.items()
    }


def _time(row: Row) -> int:
    return int(row["time"])


def _cell(value: Any, delimiter: str) -> str:
    text = str(value)
    return f'"{text}"' if delimiter in text else text


def _text(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
