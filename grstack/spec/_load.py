"""Read versions.yaml: YAML with line marks, models, cross checks; every fault in one error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from grstack.errors import SpecError
from grstack.spec._checks import CHECKS
from grstack.spec._faults import Fault, Lines, Raw, dotted, report
from grstack.spec._models import Versions

# A base loader keeps every scalar a string: 3.10 stays "3.10" and is not the float 3.1. libyaml's is ten times faster.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

# A base is asked for by the cross check too, which names the platform.
_SAID_BY_CHECKS = {("base", "missing")}


def load(path: Path) -> Versions:
    """The validated content of `path`. Raises SpecError with every fault and its line."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SpecError(f"{path.name} is missing", where=str(path), next_command=f"git checkout {path.name}") from None
    except UnicodeDecodeError as error:
        raise SpecError(
            f"not UTF-8 text: {error.reason} at byte {error.start}",
            where=str(path),
            next_command=f"git diff {path.name}",
        ) from None
    return loads(text, name=str(path))


def loads(text: str, name: str = "versions.yaml") -> Versions:
    try:
        loader = _LOADER(text)
        node = loader.get_single_node()
        data: Any = loader.construct_document(node) if node is not None else None
    except yaml.YAMLError as error:
        raise _failure(name, [_syntax_fault(error)]) from None
    lines = Lines(node)
    _add_common_packages(data)
    faults = [lines.fault(path, "key is given twice") for path, _ in lines.duplicates]
    versions: Versions | None = None
    try:
        versions = Versions.model_validate(data)
    except ValidationError as error:
        faults += _model_faults(error, lines)
    raw = Raw(data)
    for check in CHECKS:
        faults += [lines.fault(path, message) for path, message in check(raw)]
    if faults or versions is None:
        raise _failure(name, faults)
    return versions


def _add_common_packages(data: Any) -> None:
    """Every target gets `packages`, which stand once in the file; its own win. What is malformed is told later."""
    common = data.get("packages") if isinstance(data, dict) else None
    targets = data.get("targets") if isinstance(data, dict) else None
    if not isinstance(common, dict) or not isinstance(targets, dict):
        return
    for target in targets.values():
        if isinstance(target, dict) and isinstance(target.get("packages"), dict):
            target["packages"] = {**common, **target["packages"]}


def _failure(name: str, faults: list[Fault]) -> SpecError:
    return SpecError(report(faults), where=name, next_command=f"${{EDITOR:-vi}} {name}, then inv lock --check")


def _syntax_fault(error: yaml.YAMLError) -> Fault:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return Fault(mark.line + 1 if mark else 1, "", f"not valid YAML: {problem}")


def _model_faults(error: ValidationError, lines: Lines) -> list[Fault]:
    faults = []
    for item in error.errors(include_url=False):
        # pydantic marks a fault of a key, not of its value, with a last '[key]'; of a data set it names the kind
        path = tuple(part for part in item["loc"] if part not in ("[key]", "[file]", "[wheel]"))
        if (path[-1] if path else "", item["type"]) in _SAID_BY_CHECKS:
            continue
        faults.append(Fault(lines.of(path), dotted(path), _message(item["type"], item["msg"], item["input"], path)))
    return faults


def _message(kind: str, message: str, value: object, path: tuple[str | int, ...]) -> str:
    if kind == "extra_forbidden":
        return "unknown key"
    if kind == "missing":
        return f"'{path[-1]}' is missing"
    shown = f" (got '{value}')" if isinstance(value, str) and value not in message else ""
    return message.removeprefix("Value error, ") + shown
