"""A fault in a YAML file, and the index from a path in the data to its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

Path = tuple[str | int, ...]


@dataclass(frozen=True, order=True)
class Fault:
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.path}: {self.message}" if self.path else f"line {self.line}: {self.message}"


def dotted(path: Path) -> str:
    return ".".join(str(part) for part in path)


class Lines:
    """Line numbers of a YAML document by path, and the faults that only its nodes can show."""

    def __init__(self, root: yaml.Node | None) -> None:
        self._lines: dict[Path, int] = {(): 1}
        self.duplicates: list[tuple[Path, int]] = []
        if root is not None:
            self._lines[()] = root.start_mark.line + 1
            self._walk(root, ())

    def _walk(self, node: yaml.Node, path: Path) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                child = (*path, str(key.value))
                line = key.start_mark.line + 1
                if child in self._lines:
                    self.duplicates.append((child, line))
                self._lines[child] = line
                self._walk(value, child)
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                element = (*path, index)
                self._lines[element] = value.start_mark.line + 1
                self._walk(value, element)

    def of(self, path: Path) -> int:
        """The line of `path`, or of its nearest parent that is written down (for a missing key)."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]

    def fault(self, path: Path, message: str) -> Fault:
        return Fault(self.of(path), dotted(path), message)


class Raw:
    """A forgiving view of unvalidated YAML: what is missing or of the wrong kind reads as empty.

    Cross checks run on it, so that one malformed value does not hide the other faults.
    """

    def __init__(self, data: Any, path: Path = ()) -> None:
        self.data = data
        self.path = path

    def __getitem__(self, key: str) -> Raw:
        value = self.data.get(key) if isinstance(self.data, dict) else None
        return Raw(value, (*self.path, key))

    def __contains__(self, key: str) -> bool:
        return isinstance(self.data, dict) and key in self.data

    @property
    def text(self) -> str:
        return self.data if isinstance(self.data, str) else ""

    def items(self) -> Iterator[tuple[str, Raw]]:
        if isinstance(self.data, dict):
            for key in self.data:
                yield str(key), self[str(key)]

    def elements(self) -> Iterator[Raw]:
        if isinstance(self.data, list):
            for index, value in enumerate(self.data):
                yield Raw(value, (*self.path, index))

    def names(self) -> set[str]:
        """Keys of a mapping, or the strings of a list."""
        if isinstance(self.data, dict):
            return {str(key) for key in self.data}
        return {item.text for item in self.elements() if item.text}


def report(faults: Iterable[Fault]) -> str:
    ordered = sorted(set(faults))
    head = f"{len(ordered)} fault{'s' if len(ordered) != 1 else ''}:"
    return "\n".join([head, *(f"  {fault}" for fault in ordered)])
