"""Rules of the toolkit that come from how it reads a kernel's source: it looks for some macros by pattern.

What a pattern misses is not an error there: the kernel is built for another core or without one of its keys. The
compiler cannot say so, since the macros are right as C++.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KEY = re.compile(r"(0[xX][0-9a-fA-F]+|0|[1-9]\d*)([uU]?[lL]{0,2}|[lL]{1,2}[uU])")
_MACRO = re.compile(
    r"\b(TILING_KEY_IS|KERNEL_TASK_TYPE_DEFAULT|KERNEL_TASK_TYPE|REGISTER_TILING_DEFAULT|REGISTER_TILING_FOR_TILINGKEY)\b"
)
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
ARGUMENTS = {
    "TILING_KEY_IS": 1,
    "KERNEL_TASK_TYPE_DEFAULT": 1,
    "KERNEL_TASK_TYPE": 2,
    "REGISTER_TILING_DEFAULT": 1,
    "REGISTER_TILING_FOR_TILINGKEY": 2,
}


@dataclass(frozen=True)
class Use:
    """One macro in a source: its arguments are None where its line does not hold them all."""

    macro: str
    line: int
    arguments: tuple[str, ...] | None


def check(files: list[Path]) -> list[str]:
    """What breaks a rule, as `file:line: rule`. `files` are an entry's source and the headers of its folder."""
    found: list[str] = []
    uses: list[tuple[Path, Use]] = []
    for file in files:
        of_file = list(_uses(file.read_text(errors="replace")))
        uses += [(file, use) for use in of_file]
        lines = [use.line for use in of_file]
        for line in sorted({line for line in lines if lines.count(line) > 1}):
            found.append(f"{file}:{line}: one macro of tiling keys or kernel types a line: the toolkit sees the first")
        found += [f"{file}:{use.line}: {fault}" for use in of_file if (fault := _fault(use))]
    return found + _keys_without_type(uses)


def _uses(text: str) -> Iterator[Use]:
    text = _COMMENT.sub(lambda m: m[0] if m[0].startswith('"') else re.sub(r"[^\n]", " ", m[0]), text)
    for number, line in enumerate(text.splitlines(), 1):
        for match in _MACRO.finditer(line):
            if not re.match(rf"\s*#\s*(define|undef|ifdef|ifndef)\s+{match[1]}\b", line):
                yield Use(match[1], number, _arguments(line[match.end() :]))


def _arguments(rest: str) -> tuple[str, ...] | None:
    """The arguments in parentheses at the start of `rest`, split at the commas outside parentheses and strings."""
    depth, quoted, parts = 0, False, [""]
    for letter in rest.lstrip():
        quoted ^= letter == '"'
        if not quoted:
            depth += (letter == "(") - (letter == ")")
            if depth == 0:
                return tuple(part.strip() for part in parts) if letter == ")" else None
            if (letter == "(" and depth == 1) or (letter == "," and depth == 1):
                parts += [""] if letter == "," else []
                continue
        parts[-1] += letter
    return None


def _fault(use: Use) -> str | None:
    if use.arguments is None:
        return f"{use.macro} and its arguments stand in one line: the toolkit reads line by line"
    if len(use.arguments) != ARGUMENTS[use.macro]:
        return (
            f"{use.macro} takes {ARGUMENTS[use.macro]} argument(s), not {len(use.arguments)}; "
            "give a type with a comma a name of its own (using)"
        )
    first, last = use.arguments[0], use.arguments[-1]
    if use.macro in ("TILING_KEY_IS", "KERNEL_TASK_TYPE") and not _is_key(first):
        return (
            f"{use.macro}({first}): the key is a literal of 64 bits, not an expression: the toolkit does not compute it"
        )
    if use.macro.startswith("KERNEL_TASK_TYPE") and not re.fullmatch(r"KERNEL_TYPE_\w+", last):
        return f"{use.macro}: the kernel type is written out (KERNEL_TYPE_AIV_ONLY and its like), not {last}"
    if use.macro == "REGISTER_TILING_FOR_TILINGKEY" and not re.fullmatch(r'"[^"]+"', first):
        return f'{use.macro}({first}): the condition is a literal text, such as "TILING_KEY_VAR == 2"'
    return None


def _is_key(text: str) -> bool:
    return KEY.fullmatch(text) is not None and value(text) < 1 << 64


def value(key: str) -> int:
    digits = key.rstrip("uUlL")
    return int(digits, 16) if digits[:2] in ("0x", "0X") else int(digits)


def _keys_without_type(uses: list[tuple[Path, Use]]) -> list[str]:
    """Without a default, either every tiling key has a kernel type or none has."""
    literal = [(f, u) for f, u in uses if u.arguments and _is_key(u.arguments[0])]
    typed = {value(u.arguments[0]) for _, u in literal if u.macro == "KERNEL_TASK_TYPE" and u.arguments}
    if not typed or any(use.macro == "KERNEL_TASK_TYPE_DEFAULT" for _, use in uses):
        return []
    return [
        f"{file}:{use.line}: tiling key {use.arguments[0]} has no KERNEL_TASK_TYPE while others have; "
        "give it one, or a KERNEL_TASK_TYPE_DEFAULT"
        for file, use in literal
        if use.macro == "TILING_KEY_IS" and use.arguments and value(use.arguments[0]) not in typed
    ]
