"""YAML that every reader takes for the same: what is not plainly a word or a path is quoted."""

from __future__ import annotations

import re
from typing import Any

import yaml


class _Quoting(yaml.SafeDumper):
    pass


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    plain = re.fullmatch(r"[A-Za-z/][\w./-]*", value)
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')


_Quoting.add_representer(str, _text)


def dump(document: Any) -> str:
    return yaml.dump(document, Dumper=_Quoting, sort_keys=False, width=110).rstrip()
