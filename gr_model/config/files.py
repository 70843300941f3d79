"""A config in a YAML file: sections of settings, or dotted names, above a preset that it may begin with.

Values are read as the text that stands there, as those of a command are: 1e-3 is a number, where YAML 1.1 sees text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gr_model.config.overrides import Assignment, assign
from gr_model.config.settings import Config, ConfigError

SUFFIXES = (".yaml", ".yml")
PRESET = "preset"


def is_file(name: str) -> bool:
    """Whether `name` is that of a file and not of a preset."""
    return name.endswith(SUFFIXES)


def load(path: Path, preset: Callable[[str], Config]) -> Config:
    """ConfigError with file and line of each fault."""
    found, faults = list(_settings(path)), []
    base = None
    names: dict[str, Assignment] = {}
    for assignment in found:
        earlier = names.setdefault(assignment.name, assignment)
        if earlier is not assignment:
            faults.append(f"{assignment.where}{assignment.name} stands already in line {_line(earlier)}")
    if chosen := names.pop(PRESET, None):
        try:
            base = preset(str(chosen.value))
        except ConfigError as error:
            raise ConfigError(f"{chosen.where}{error}") from None
    return assign(base, list(names.values()), faults)


def _settings(path: Path) -> Iterator[Assignment]:
    try:
        import yaml
    except ImportError as error:
        raise ConfigError(f"{path}: reading it needs PyYAML ({error}); pip install pyyaml") from None
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file\n  next: python -m gr_model.train --config smoke --print-config > {path}"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {error}") from None
    if root is None:
        raise ConfigError(f"{path}: has no settings\n  next: python -m gr_model.train --help lists them")
    yield from _of_mapping(path, root, "")


def _of_mapping(path: Path, node: Any, section: str) -> Iterator[Assignment]:
    import yaml

    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(f"{_at(path, node)}expected `setting: value` lines, got {_shown(node)}")
    for key, value in node.value:
        name = f"{section}.{key.value}" if section else str(key.value)
        if isinstance(value, yaml.MappingNode):
            yield from _of_mapping(path, value, name)
        elif isinstance(value, yaml.SequenceNode):
            wrong = next((each for each in value.value if not isinstance(each, yaml.ScalarNode)), None)
            if wrong is not None:
                raise ConfigError(f"{_at(path, wrong)}{name}: expected a list of names, got {_shown(wrong)} in it")
            yield Assignment(name, tuple(str(each.value) for each in value.value), _at(path, key))
        elif value.tag.endswith(":null") and value.style is None:
            raise ConfigError(f"{_at(path, key)}{name}: has no value; leave the line out for the default")
        else:
            yield Assignment(name, str(value.value), _at(path, key))


def _at(path: Path, node: Any) -> str:
    return f"{path}:{node.start_mark.line + 1}: "


def _line(assignment: Assignment) -> str:
    return assignment.where.removesuffix(": ").rpartition(":")[2]


def _shown(node: Any) -> str:
    return {"MappingNode": "a section", "SequenceNode": "a list"}.get(type(node).__name__, repr(node.value))
