"""Names in the operators' definitions that the toolkit's generated Python has itself.

It writes a Python function of each operator with its parameters' names. By the makers' page of `Attr`
(ascendcopapi/atlasascendc_api_07_0949 of CANN 8.0) the same name leads to undefined errors.
"""

from __future__ import annotations

import keyword
import re
from pathlib import Path

import pytest

OPERATORS = Path(__file__).resolve().parents[2] / "kernels/operators"
SOURCES = sorted({*OPERATORS.glob("*/op_host/*"), *OPERATORS.glob("common/*.h")})
TEXT = re.compile(r'"(\w+)"')  # more than the names: "jagged" and others are values
TAKEN = set(
    re.findall(
        r"\w+",
        """
    arg __inputs__ __outputs__ __attrs__ options bisheng bisheng_path tikcpp_path impl_mode custom_compile_options
    custom_all_compile_options soc_version soc_short custom_compile_options_soc custom_all_compile_options_soc
    origin_func_name ascendc_src_dir_ex ascendc_src_dir ascendc_src_file src op_type code_channel op_info compile_op
    get_code_channel result isinstance attr get_current_build_config _build_args get_dtype_fmt_options shutil os
    get_kernel_source
    """,
    )
)


def names_of(source: Path) -> set[str]:
    """Whether a definition calls Input, Output and Attr itself or by helpers."""
    return set(TEXT.findall(source.read_text(encoding="utf-8")))


def taken(names: set[str]) -> set[str]:
    return {name for name in names if name in TAKEN or keyword.iskeyword(name)}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_no_definition_takes_a_name_of_the_generated_python(source: Path) -> None:
    assert not taken(names_of(source))


def test_the_names_are_found() -> None:
    names = set().union(*map(names_of, SOURCES))
    assert {"q", "num_target", "faults", "faults_out", "max_seq_len", "parts", "dev_weights"} <= names
    assert taken({"src", "result", "lambda", "q", "source"}) == {"src", "result", "lambda"}
