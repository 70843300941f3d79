"""Kernel types, tiling keys and tiling structures stand in the file of the operator's entry.

The toolkit finds them by patterns in that source. opbuild's rules (twin/opbuild/source_rules.py) look there and into
headers beside it, and neither looks into those that operators share.
"""

from __future__ import annotations

import re
from pathlib import Path

OPERATORS = Path(__file__).resolve().parents[2] / "kernels/operators"
MACRO = re.compile(r"\b(TILING_KEY_IS|TILING_KEY_VAR|KERNEL_TASK_TYPE\w*|REGISTER_TILING_\w+|GET_TILING_DATA\w*)\b")
ENTRY = re.compile(r'extern "C" __global__ __aicore__ void (\w+)\(')


def test_the_toolkit_s_macros_are_in_the_entries_files_alone() -> None:
    sources = sorted({*OPERATORS.glob("*/op_kernel/*"), *OPERATORS.glob("common/*.h")})
    texts = {path: path.read_text(encoding="utf-8") for path in sources}
    entries = {path for path, text in texts.items() if ENTRY.search(text)}
    assert {path for path, text in texts.items() if MACRO.search(text)} == entries and len(entries) > 15


def test_an_entry_has_the_name_of_its_file_and_a_kernel_type_and_structure() -> None:
    for path in OPERATORS.glob("*/op_kernel/*.cpp"):
        text = path.read_text(encoding="utf-8")
        assert ENTRY.findall(text) == [path.stem]
        assert {"REGISTER_TILING_DEFAULT", "GET_TILING_DATA"} <= set(MACRO.findall(text)), path.name
        assert any(name.startswith("KERNEL_TASK_TYPE") for name in MACRO.findall(text)), path.name
