"""Settings by dotted name, of a command (`key=value`) or a file, on a config of this run or on that of a checkpoint."""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from collections.abc import Sequence
from typing import Any

from gr_model.config import advice as config_advice
from gr_model.config.data import OF_OWN, OWN
from gr_model.config.settings import Config, ConfigError, from_json, keys


@dataclasses.dataclass(frozen=True)
class Assignment:
    """What is to be set. `where` is what a fault begins with, such as a file's name and line."""

    name: str
    value: str | tuple[str, ...]
    where: str = ""


def override(config: Config, assignments: list[str]) -> Config:
    """Apply `model.dim=64`-like assignments; all faults are reported at once."""
    split = [(assignment, *assignment.partition("=")) for assignment in assignments]
    faults = [f"{assignment!r} is not of the form key=value" for assignment, _, equals, _ in split if not equals]
    return assign(config, [Assignment(name, text) for _, name, equals, text in split if equals], faults)


def assign(base: Config | None, assignments: Sequence[Assignment], faults: Sequence[str] = ()) -> Config:
    """`base`, else the defaults, with `assignments`; ConfigError with all that is wrong, `faults` among it."""
    valid = keys(base) if base else defaults()
    faults, unknown = list(faults), []
    changes: dict[str, Any] = {}
    where = {assignment.name: assignment.where for assignment in assignments}
    for assignment in assignments:
        name = assignment.name
        if name not in valid:
            unknown.append(config_advice.hint(name, valid))
            faults.append(f"{assignment.where}unknown key {name!r}{unknown[-1]}")
            continue
        try:
            changes[name] = _parsed(name, assignment.value)
        except ValueError as error:
            faults.append(f"{assignment.where}{name}: {error}")
    if changes.get("data.path") and "dataset" not in changes:
        changes["dataset"] = OWN
    after = {**valid, **changes}
    if base is None and not after["task"]:
        faults.append("task: say what is trained, retrieval or ranking (or begin with a preset: preset: NAME)")
    for fault in config_advice.without_effect((name for name in where if name in valid), after):
        faults.append(where[fault.partition(":")[0]] + fault)
    if not all(unknown):
        faults.append(f"valid keys: {', '.join(valid)}")
    if faults:
        raise ConfigError("; ".join(faults), faults)
    try:
        return _made(base, changes)
    except ConfigError as error:
        told = [where.get(fault.partition(":")[0], "") + fault for fault in error.faults]
        raise ConfigError("; ".join(told), told) from None


def defaults() -> dict[str, Any]:
    """Dotted name -> default of every setting; None of one without."""
    hints = typing.get_type_hints(Config)
    found: dict[str, Any] = {}
    for item in dataclasses.fields(Config):
        if dataclasses.is_dataclass(hints[item.name]):
            inner = dataclasses.fields(hints[item.name])
            found |= {f"{item.name}.{each.name}": each.default for each in inner}
        else:
            found[item.name] = None if item.default is dataclasses.MISSING else item.default
    return found


def resumed(stored: dict[str, Any], assignments: list[str]) -> Config:
    """The config of a run that continues. What shapes the model or splits the data stays as the checkpoint has it."""
    before = from_json(stored)
    after = override(before, assignments)
    old, new = keys(before), keys(after)
    fixed = [name for name in old if old[name] != new[name] and not _may_change(name)]
    if fixed:
        told = ", ".join(f"{name}={old[name]}" for name in fixed)
        raise ConfigError(f"the checkpoint was made with {told}, which cannot change; for others start with --config")
    return after


def _made(base: Config | None, changes: dict[str, Any]) -> Config:
    """All at once, because settings of one section may need those of another."""
    hints = typing.get_type_hints(Config)
    top: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        section, _, key = name.rpartition(".")
        (sections.setdefault(section, {}) if section else top)[key] = value
    made = {
        name: dataclasses.replace(getattr(base, name) if base else hints[name](), **values)
        for name, values in sections.items()
    }
    return dataclasses.replace(base, **made, **top) if base else Config(**made, **top)


def _may_change(name: str) -> bool:
    if name in {f"data.{each}" for each in OF_OWN}:
        return False
    return name.startswith(("train.", "retrieval.", "data.")) or name in (
        "model.dropout",
        "model.attention",
        "model.compile",
        "model.recompute",
        "model.stochastic_length",
        "embedding.sharding",
        "embedding.lr",
        "embedding.look_ahead",
        "embedding.capacity",
        "embedding.cache_rows",
        "embedding.host_rows",
        "embedding.folder",
    )


def _parsed(name: str, value: str | tuple[str, ...]) -> Any:
    """ValueError where it does not fit the setting's type."""
    section, _, key = name.rpartition(".")
    owner = typing.get_type_hints(Config)[section] if section else Config
    (item,) = (each for each in dataclasses.fields(owner) if each.name == key)
    parsed = _of_type(typing.get_type_hints(owner)[key], value)
    return os.path.abspath(os.path.expanduser(parsed)) if item.metadata["path"] and parsed else parsed


def _of_type(kind: Any, value: str | tuple[str, ...]) -> Any:
    if typing.get_origin(kind) is tuple or isinstance(kind, types.GenericAlias):
        return tuple(part for part in value.split(",") if part) if isinstance(value, str) else value
    if not isinstance(value, str):
        raise ValueError(f"expected one value, got the list {', '.join(value)}")
    if kind is bool:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if value.lower() not in words:
            raise ValueError(f"expected true or false, got {value!r}")
        return words[value.lower()]
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"expected {kind.__name__}, got {value!r}") from None
