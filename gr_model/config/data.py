"""Settings of reading: how far ahead, how many bad rows, and the columns of a file of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gr_model.config.setting import setting

OWN = "own"  # the data set that is the file data.path
# What a run reads from that file, so what it keeps when it goes on.
OF_OWN = (
    "path",
    "delimiter",
    "user",
    "item",
    "time",
    "time_unit",
    "actions",
    "action_kind",
    "features",
    "at_least",
)
FLAGS = 12  # columns of flags: 2**12 different actions
NOT_EMPTY = ("user", "item", "time")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    path: str = setting(
        "", "a file of your own, or a folder of such files: .csv, .tsv, .parquet, .jsonl (text also as .gz)", path=True
    )
    delimiter: str = setting("", "between the columns of a text file; empty: a tab in .tsv, else a comma")
    user: str = setting("user", "column with the user's id: text or whole numbers")
    item: str = setting("item", "column with the item's id: text or whole numbers")
    time: str = setting(
        "time", "column with the time: whole numbers in data.time_unit, or ISO 8601 text (UTC if no zone)"
    )
    time_unit: str = setting("s", "unit of times that are numbers", choices=("s", "ms", "us", "ns"))
    actions: tuple[str, ...] = setting(
        (), "columns that say what the user did; none: all rows are alike, which retrieval can train on"
    )
    action_kind: str = setting(
        "auto",
        "labels: one column of names, several in a row split by |, each a ranking task; ratings: one column of "
        "numbers, with the tasks like (4 and more), love (5), dislike (2 and less); flags: columns of 0 and 1, each a "
        "ranking task; auto: flags of several columns, else labels",
        choices=("auto", "labels", "ratings", "flags"),
    )
    features: tuple[str, ...] = setting(
        (), "columns that describe the user, for model.contextual; a user's first row counts"
    )
    at_least: int = setting(1, "users and items with fewer rows are left out")
    bad_rows: float = setting(1e-3, "share of the rows of a file that may be bad and are left out")
    workers: int = setting(0, "processes that read ahead")
    prefetch: int = setting(2, "steps that each of them reads ahead")
    start_method: str = setting("fork", "how these processes start", choices=("fork", "spawn"))

    @property
    def kind_of_actions(self) -> str:
        """`action_kind` with auto decided: labels, ratings, flags, or "" where there are no actions."""
        if not self.actions:
            return ""
        if self.action_kind != "auto":
            return self.action_kind
        return "flags" if len(self.actions) > 1 else "labels"

    @property
    def columns(self) -> dict[str, str]:
        """The wanted columns, each with the setting that names it."""
        named = [(self.user, "data.user"), (self.item, "data.item"), (self.time, "data.time")]
        named += [(name, "data.actions") for name in self.actions] + [(name, "data.features") for name in self.features]
        return dict(named)


def faults(data: DataConfig) -> Iterator[str]:
    for name in NOT_EMPTY:
        if not getattr(data, name):
            yield f"data.{name}: needs the name of a column"
    wanted = [data.user, data.item, data.time, *data.actions, *data.features]
    twice = sorted({name for name in wanted if wanted.count(name) > 1})
    if twice:
        yield f"data: {', '.join(twice)} is named for two purposes; each column has one"
    if len(data.delimiter) > 1 and data.delimiter != "\\t":
        yield f"data.delimiter: one character (\\t is a tab), got {data.delimiter!r}"
    if data.action_kind in ("labels", "ratings") and len(data.actions) > 1:
        yield f"data.action_kind: {data.action_kind} stand in one column, data.actions names {len(data.actions)}"
    if data.kind_of_actions == "flags" and len(data.actions) > FLAGS:
        yield f"data.actions: at most {FLAGS} columns of flags, got {len(data.actions)}"
    if data.at_least < 1:
        yield f"data.at_least: must be greater than 0, got {data.at_least}"
