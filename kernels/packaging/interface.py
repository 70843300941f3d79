#!/usr/bin/env python3
"""The interface of an operator's package, as a key: what the plugin must know of it to call it.

    interface.py kernels/operators/NAME               prints the key of one package
    interface.py --table kernels/operators            prints kernels/gr_ops/csrc/aclnn/interfaces.h

A call through aclnn has no types: an input more or another order is read as something else, without an error. So the
key is made of the definitions of the package's operators (inputs, attributes, outputs and their order), of the structs
of their tiling data, and of the numbers of fault records; comments and layout do not count. It stands as `interface` in
version.info of the package, and in the plugin.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")|(\w+)|\s+|(.)', re.DOTALL)
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
DEFINITION = re.compile(r"class\s+(\w+)\s*(?:final\s*)?:\s*public\s+(?:ops::)?OpDef\b")
DECLARES = re.compile(r"\.\s*(?:template\s+)?(?:Input|Output|Attr)\s*\(")
RECORDS = "data_faults.h"  # its numbers are in the plugin too
DIGITS = 12


def tokens(text: str) -> str:
    """Without comments and layout: a word or a sign a line."""
    return "\n".join("".join(filter(None, found.groups())) for found in TOKEN.finditer(text) if any(found.groups()))


def definitions(text: str) -> dict[str, str]:
    """The classes of operators by name, each as its tokens."""
    found = {}
    for start in DEFINITION.finditer(text):
        lines = tokens(text[start.start() :]).split("\n")
        depth = 0
        for end, line in enumerate(lines):
            depth += (line == "{") - (line == "}")
            if line == "}" and depth == 0:
                found[start[1]] = "\n".join(lines[: end + 1])
                break
        else:
            raise SystemExit(f"interface.py: the class {start[1]} does not end; balance its braces")
    return found


def reached(source: Path, folders: tuple[Path, ...]) -> set[Path]:
    """The operator's own headers that a source includes, and those that they include."""
    files: set[Path] = set()
    todo = [source]
    while todo:
        file = todo.pop()
        for name in INCLUDE.findall(file.read_text(encoding="utf-8")):
            for folder in (file.parent, *folders):
                header = (folder / name).resolve()
                if header.is_file():
                    if header not in files:
                        files.add(header)
                        todo.append(header)
                    break
    return files


def operators(folder: Path) -> dict[str, str]:
    """The definitions of a package by the type of their operators."""
    found: dict[str, str] = {}
    for source in sorted((folder / "op_host").glob("*.cpp")):
        found |= definitions(source.read_text(encoding="utf-8"))
    if not found:
        raise SystemExit(f"interface.py: {folder}/op_host/*.cpp defines no operator; expected a class of OpDef")
    return found


def key(folder: Path) -> str:
    common = folder.parent / "common"
    parts = operators(folder)
    for source in sorted((folder / "op_host").glob("*.cpp")):
        for header in reached(source, (folder / "op_host", folder / "op_kernel", common)):
            text = header.read_text(encoding="utf-8")
            if header.name.endswith("_tiling.h") or DECLARES.search(text):
                parts[header.name] = tokens(text)
    records = common / RECORDS
    if any("faults" in text for text in parts.values()) and records.is_file():
        parts[RECORDS] = tokens(records.read_text(encoding="utf-8").split("class Reporter")[0])
    text = "\n\n".join(f"{name}\n{parts[name]}" for name in sorted(parts))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def table(root: Path) -> str:
    rows = [
        f'    {{"aclnn{operator}", "mxrec_opp_{folder.name}", "{key(folder)}"}},'
        for folder in sorted(root.iterdir())
        if (folder / "op_host").is_dir()
        for operator in sorted(operators(folder))
    ]
    return "\n".join(
        [
            "#pragma once",
            "",
            "// Written by: python3 kernels/packaging/interface.py --table kernels/operators",
            "// What this plugin calls operators by, which their packages say in version.info.",
            "namespace gr_ops::aclnn {",
            "",
            "struct Interface {",
            "  const char* function;",
            "  const char* package;",
            "  const char* key;",
            "};",
            "",
            "// clang-format off",
            "constexpr Interface kInterfaces[] = {",
            *rows,
            "};",
            "// clang-format on",
            "",
            "}  // namespace gr_ops::aclnn",
            "",
        ]
    )


def main(arguments: list[str]) -> int:
    if len(arguments) == 2 and arguments[0] == "--table":
        sys.stdout.write(table(Path(arguments[1])))
    elif len(arguments) == 1 and not arguments[0].startswith("-"):
        print(key(Path(arguments[0])))
    else:
        print("interface.py: give an operator's folder, or --table and the folder of all operators", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
