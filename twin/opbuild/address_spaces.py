"""Compiles a kernel once more with clang, where each memory is an address space of its own, as on the device.

g++, which builds what the emulated cores run, has no address spaces in C++: to it a pointer to global memory is any
pointer. What it accepts and the device's compiler refuses is found here.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
from pathlib import Path

COMPILER = "TWIN_CLANG"
MEMORIES = ("", "__gm__", "__ubuf__", "__cbuf__", "__ca__", "__cb__", "__cc__")  # as numbered in qualifiers.h
FLAGS = ("-std=c++17", "-DTWIN_ADDRESS_SPACES", "-O0", "-gline-tables-only", "-Wno-everything")
# A cast between spaces in C's notation is none of the errors, but an instruction of its own.
_CAST = re.compile(r"addrspacecast (?P<source>.*?) to (?P<target>.*?), !dbg !(?P<place>\d+)")


def compiler() -> str | None:
    """The clang++ of TWIN_CLANG, else of PATH; None where there is none."""
    return shutil.which(os.environ.get(COMPILER, "clang++"))


def faults(clang: str, unit: Path, flags: list[str]) -> str:
    """What is wrong with the pointers of a kernel unit, with file and line; empty where nothing is."""
    native = ["-mavx512fp16"] if platform.machine() == "x86_64" else []  # clang 14 has half there only
    command = [clang, *FLAGS, *native, *flags, "-S", "-emit-llvm", "-o", "-", str(unit)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return f"+ {shlex.join(command)}\n{_named(result.stderr)}"
    return "\n".join(_casts(result.stdout))


def _named(text: str) -> str:
    """clang's messages with the memories' names for the numbers of their spaces."""
    text = re.sub(r"address space '(\d)'", lambda m: f"memory {MEMORIES[int(m[1])]}", text)
    return re.sub(r"__attribute__\(\(address_space\((\d)\)\)\)", lambda m: MEMORIES[int(m[1])], text)


def _casts(ir: str) -> list[str]:
    found: dict[str, None] = {}
    for match in _CAST.finditer(ir):
        file, line = _place(ir, match["place"])
        spaces = [_memory(match[part]) for part in ("source", "target")]
        found[f"{file}:{line}: error: cast of a pointer from {spaces[0]} to {spaces[1]} memory"] = None
    return list(found)


def _memory(pointer: str) -> str:
    spaces = re.findall(r"addrspace\((\d)\)", pointer.split(" %")[0])
    return MEMORIES[int(spaces[-1])] if spaces else "the core's own"


def _place(ir: str, number: str) -> tuple[str, str]:
    """File and line of a debug location."""
    line = re.search(r"line: (\d+)", _node(ir, number))
    scope = re.search(r"scope: !(\d+)", _node(ir, number))
    while scope is not None:
        node = _node(ir, scope[1])
        file = re.search(r"file: !(\d+)", node)
        if file is not None:
            name = re.search(r'filename: "([^"]*)"', _node(ir, file[1]))
            return name[1] if name else "?", line[1] if line else "?"
        scope = re.search(r"scope: !(\d+)", node)
    return "?", line[1] if line else "?"


def _node(ir: str, number: str) -> str:
    found = re.search(rf"^!{number} = (.*)$", ir, re.MULTILINE)
    return found[1] if found else ""
