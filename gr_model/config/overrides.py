"""`key=value` with dotted names, on a config of this run or on that of a checkpoint."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

from gr_model.config import advice as config_advice
from gr_model.config.settings import Config, ConfigError, from_json, keys


def override(config: Config, assignments: list[str]) -> Config:
    """Apply `model.dim=64`-like assignments; all faults are reported at once."""
    valid = keys(config)
    faults: list[str] = []
    unknown: list[str] = []
    after = dict(valid)
    changes: dict[str, dict[str, Any]] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            faults.append(f"{assignment!r} is not of the form key=value")
        elif name not in valid:
            unknown.append(config_advice.hint(name, valid))
            faults.append(f"unknown key {name!r}{unknown[-1]}")
        else:
            section, _, key = name.rpartition(".")
            owner = getattr(config, section) if section else config
            try:
                value = _parse(typing.get_type_hints(type(owner))[key], text)
                changes.setdefault(section, {})[key] = after[name] = value
            except ValueError as error:
                faults.append(f"{name}: {error}")
    assigned = dict.fromkeys(assignment.partition("=")[0] for assignment in assignments)
    faults += config_advice.without_effect((name for name in assigned if name in valid), after)
    if not all(unknown):
        faults.append(f"valid keys: {', '.join(valid)}")
    if faults:
        raise ConfigError("; ".join(faults))
    sections = {name: dataclasses.replace(getattr(config, name), **values) for name, values in changes.items() if name}
    return dataclasses.replace(config, **sections, **changes.get("", {}))


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


def _may_change(name: str) -> bool:
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


def _parse(kind: Any, text: str) -> Any:
    if kind is bool:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if text.lower() not in words:
            raise ValueError(f"expected true or false, got {text!r}")
        return words[text.lower()]
    if typing.get_origin(kind) is tuple or isinstance(kind, types.GenericAlias):
        return tuple(part for part in text.split(",") if part)
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"expected {kind.__name__}, got {text!r}") from None
