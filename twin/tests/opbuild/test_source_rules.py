"""What the toolkit finds in a kernel's source by pattern must be written as its patterns expect it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TWIN = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TWIN / "opbuild"))

import source_rules  # noqa: E402

RIGHT = """
// TILING_KEY_IS(a) is no use, /* nor KERNEL_TASK_TYPE(b, c) */ is this
REGISTER_TILING_DEFAULT(Data);
REGISTER_TILING_FOR_TILINGKEY("TILING_KEY_VAR == 2, 3", Other);
KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
KERNEL_TASK_TYPE(0x10UL, KERNEL_TYPE_AIV_ONLY);
if (TILING_KEY_IS(0)) {
} else if (TILING_KEY_IS(18446744073709551615UL)) {
}
"""


def check(folder: Path, *sources: str) -> list[str]:
    files = [folder / f"source{i}.h" for i in range(len(sources))]
    for file, text in zip(files, sources, strict=True):
        file.write_text(text)
    return [line.removeprefix(f"{folder}/") for line in source_rules.check(files)]


def test_a_kernel_as_the_toolkit_reads_it(tmp_path):
    assert check(tmp_path, RIGHT) == []


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("if (TILING_KEY_IS(1) || TILING_KEY_IS(2)) {}", "one macro of tiling keys or kernel types a line"),
        ("if (TILING_KEY_IS(KEY_OF_FLOAT)) {}", "TILING_KEY_IS(KEY_OF_FLOAT): the key is a literal"),
        ("if (TILING_KEY_IS(1 + 2)) {}", "TILING_KEY_IS(1 + 2): the key is a literal"),
        ("if (TILING_KEY_IS(-1)) {}", "TILING_KEY_IS(-1): the key is a literal"),
        ("if (TILING_KEY_IS(010)) {}", "TILING_KEY_IS(010): the key is a literal"),  # octal, or ten
        ("if (TILING_KEY_IS(18446744073709551616)) {}", "the key is a literal of 64 bits"),
        ("if (TILING_KEY_IS(static_cast<int>(Keys::FLOAT))) {}", "the key is a literal"),
        ("#define IS(k) TILING_KEY_IS(k)", "TILING_KEY_IS(k): the key is a literal"),
        ("if (TILING_KEY_IS(\n1)) {}", "TILING_KEY_IS and its arguments stand in one line"),
        ("KERNEL_TASK_TYPE(1,\n KERNEL_TYPE_AIV_ONLY);", "KERNEL_TASK_TYPE and its arguments stand in one line"),
        ("KERNEL_TASK_TYPE(KEY, KERNEL_TYPE_AIV_ONLY);", "KERNEL_TASK_TYPE(KEY): the key is a literal"),
        ("KERNEL_TASK_TYPE_DEFAULT(kType);", "the kernel type is written out"),
        ("KERNEL_TASK_TYPE(1);", "KERNEL_TASK_TYPE takes 2 argument(s), not 1"),
        ("REGISTER_TILING_DEFAULT(Data<int, 2>);", "REGISTER_TILING_DEFAULT takes 1 argument(s), not 2; give a type"),
        ("REGISTER_TILING_FOR_TILINGKEY(kCondition, Data);", "the condition is a literal text"),
    ],
)
def test_a_broken_rule_is_named_with_file_and_line(tmp_path, line, rule):
    found = check(tmp_path, "", f"KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);\n/* {line} */\n\n{line}\n")
    place = 4 + line.count("\n")
    assert len(found) == 1 and found[0].startswith(f"source1.h:{place}: ") and rule in found[0], found


def test_without_a_default_every_key_has_a_kernel_type_or_none(tmp_path):
    keys = "if (TILING_KEY_IS(1)) {\n} else if (TILING_KEY_IS(0x2)) {}\n"
    one, both = "KERNEL_TASK_TYPE(1, KERNEL_TYPE_AIV_ONLY);\n", "KERNEL_TASK_TYPE(2, KERNEL_TYPE_AIV_ONLY);\n"
    assert check(tmp_path, keys) == []
    assert check(tmp_path, one + both + keys) == []
    assert check(tmp_path, one + "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);\n" + keys) == []
    (found,) = check(tmp_path, one + keys)
    assert found.startswith("source0.h:3: tiling key 0x2 has no KERNEL_TASK_TYPE while others have")
