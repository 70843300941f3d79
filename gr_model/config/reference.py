"""Every setting with its type, default and meaning: for --help, --print-config and docs/generated/settings.md.

python -m gr_model.config.reference > docs/generated/settings.md
"""

from __future__ import annotations

import dataclasses
import json
import re
import textwrap
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from gr_model.config import advice
from gr_model.config.overrides import defaults
from gr_model.config.settings import Config, keys

SECTIONS = {
    "": "What is trained, on what",
    "model": "The network",
    "embedding": "The table of items",
    "data": "Reading, and files of your own",
    "synthetic": "Data sets that are made (dataset=planted-sequences, planted-actions)",
    "retrieval": "task=retrieval",
    "ranking": "task=ranking",
    "train": "Training",
}


@dataclass(frozen=True)
class Setting:
    name: str  # dotted
    type: str
    default: Any  # None: it has none
    meaning: str
    choices: tuple[str, ...]

    @property
    def section(self) -> str:
        return self.name.rpartition(".")[0]


def settings() -> Iterator[Setting]:
    hints, default = typing.get_type_hints(Config), defaults()
    for item in dataclasses.fields(Config):
        inner = hints[item.name]
        if not dataclasses.is_dataclass(inner):
            yield _setting(item.name, inner, item, default)
            continue
        kinds = typing.get_type_hints(inner)
        for each in dataclasses.fields(inner):
            yield _setting(f"{item.name}.{each.name}", kinds[each.name], each, default)


def help_text(width: int = 100) -> str:
    """A paragraph of each setting, by section."""
    lines = ["settings, as key=value, or in a file for --config:"]
    for section, group in groupby(settings(), lambda each: each.section):
        lines += ["", f"{SECTIONS[section]}:"]
        for each in group:
            default = "no default" if each.default is None else f"default {_text(each.default) or 'empty'}"
            lines.append(f"  {each.name}  ({_valid(each)}; {default})")
            lines += textwrap.wrap(each.meaning, width, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines)


def as_yaml(config: Config) -> str:
    """The config as a file that --config reads, with comments. Settings that nothing would look at are left out."""
    values = keys(config)
    idle = {fault.partition(":")[0] for fault in advice.without_effect(values, values)}
    lines: list[str] = []
    for section, group in groupby((each for each in settings() if each.name not in idle), lambda each: each.section):
        lines += [f"\n{section}:  # {SECTIONS[section]}"] if section else []
        for each in group:
            key = each.name.rpartition(".")[2]
            line = f"{'  ' if section else ''}{key}: {_yaml(values[each.name])}"
            choices = f" ({' | '.join(each.choices)})" if each.choices else ""
            lines.append(f"{line:<28}  # {each.meaning}{choices}")
    return "\n".join(lines) + "\n"


def page() -> str:
    """docs/generated/settings.md."""
    lines = [
        "# Settings",
        "",
        "`python -m gr_model.train --config NAME [key=value ...]`, or in a file for `--config`. Written by",
        "`python -m gr_model.config.reference`; `--help` says the same.",
    ]
    for section, group in groupby(settings(), lambda each: each.section):
        lines += ["", f"## {SECTIONS[section]}", "", "| setting | type | default | meaning |", "|---|---|---|---|"]
        for each in group:
            default = "" if each.default is None else f"`{_text(each.default)}`" if _text(each.default) else "empty"
            cells = (f"`{each.name}`", _valid(each), default, each.meaning)
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _setting(name: str, kind: Any, item: dataclasses.Field[Any], default: dict[str, Any]) -> Setting:
    several = typing.get_origin(kind) is tuple or isinstance(kind, types.GenericAlias)
    words = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    meaning = item.metadata["meaning"]
    return Setting(name, "list: a,b,c" if several else words[kind], default[name], meaning, item.metadata["choices"])


def _valid(setting: Setting) -> str:
    return ", ".join(setting.choices) if setting.choices else setting.type


def _text(value: Any) -> str:
    """As a command has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _yaml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, str):
        return value if re.fullmatch(r"[A-Za-z0-9_./][\w./-]*", value) else json.dumps(value, ensure_ascii=False)
    return _text(value)


if __name__ == "__main__":
    print(page(), end="")
