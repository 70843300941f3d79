"""What a person may have meant by a name that does not exist, and settings that a config would not look at."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gr_model.config.data import OF_OWN, OWN
from gr_model.config.embedding import KINDS_OF

# What a short name most likely means comes first.
SECTIONS = ("train", "model", "embedding", "retrieval", "ranking", "data", "synthetic")
PLANTED = ("planted-sequences", "planted-actions")
# (start of the setting's name, the setting that decides, its values with which the setting has an effect)
NEEDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("retrieval.", "task", ("retrieval",)),
    ("ranking.", "task", ("ranking",)),
    ("synthetic.", "dataset", PLANTED),
    *((f"data.{name}", "dataset", (OWN,)) for name in OF_OWN),
    *((f"embedding.{name}", "embedding.kind", kinds) for name, kinds in KINDS_OF.items()),
)


def meant(name: str, valid: Iterable[str]) -> list[str]:
    """Names that are nearly `name`, or end as it does (`lr` for train.lr); the likeliest first."""
    names = list(valid)
    leaf = name.rpartition(".")[2].replace("-", "_")
    leaves: dict[str, list[str]] = {}
    for each in sorted(names, key=_section):
        leaves.setdefault(each.rpartition(".")[2], []).append(each)
    if leaf in leaves:
        return leaves[leaf]
    near = difflib.get_close_matches(name, names, n=1)
    return near or [each for close in difflib.get_close_matches(leaf, leaves, n=1) for each in leaves[close]]


def hint(name: str, valid: Iterable[str]) -> str:
    """ " (did you mean 'train.lr'?)", or nothing."""
    found = meant(name, valid)
    return f" (did you mean {' or '.join(map(repr, found))}?)" if found else ""


def without_effect(names: Iterable[str], settings: Mapping[str, Any]) -> Iterator[str]:
    """A fault for each of the settings `names` that nothing looks at, the others being `settings`."""
    for name in names:
        for start, decides, values in NEEDS:
            fits = name.startswith(start) if start.endswith(".") else name == start
            if fits and settings[decides] not in values:
                yield (
                    f"{name}: nothing looks at it with {decides}={settings[decides]}; valid with {decides}="
                    + " or ".join(values)
                )


def _section(name: str) -> int:
    section = name.rpartition(".")[0]
    return SECTIONS.index(section) if section in SECTIONS else len(SECTIONS)
