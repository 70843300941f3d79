"""Tiling templates: what op_host declares, as the builder reads it, and the entry that it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

TWIN = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TWIN / "opbuild"))

import kernel_templates  # noqa: E402
from definition import DefinitionError, Operator, Parameter  # noqa: E402

HEADER = """
#include <cstdio>
#include "ascendc/host_api/tiling/template_argument.h"
#define MY_FP16 10
#define MY_FP32 20
ASCENDC_TPL_ARGS_DECL(AddCustom,
    ASCENDC_TPL_DTYPE_DECL(D_T_X, MY_FP16, MY_FP32),
    ASCENDC_TPL_DATATYPE_DECL(D_T_Z, C_DT_FLOAT, C_DT_BF16, ASCENDC_TPL_OUTPUT(0)),
    ASCENDC_TPL_UINT_DECL(TILES, ASCENDC_TPL_8_BW, ASCENDC_TPL_UI_MIX, 2, 0, 2, 5, 6, 40, 9),
    ASCENDC_TPL_BOOL_DECL(SPLIT, false, true), );
ASCENDC_TPL_SEL(
    ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_KERNEL_TYPE_SEL(ASCENDC_TPL_MIX_AIC_1_2),
                         ASCENDC_TPL_DTYPE_SEL(D_T_X, MY_FP32),
                         ASCENDC_TPL_UINT_SEL(TILES, ASCENDC_TPL_UI_RANGE, 1, 1, 2),
                         ASCENDC_TPL_BOOL_SEL(SPLIT, 0)),
    ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_DTYPE_SEL(D_T_X, MY_FP16, MY_FP32),
                         ASCENDC_TPL_DATATYPE_SEL(D_T_Z, C_DT_FLOAT),
                         ASCENDC_TPL_UINT_SEL(TILES, ASCENDC_TPL_UI_LIST, 9, 40),
                         ASCENDC_TPL_BOOL_SEL(SPLIT, 1), ), )
"""
ASK = """
int main() {
  const int lists[][4] = {{20, 0, 2, 0}, {20, 27, 1, 0}, {10, 0, 40, 1}, {20, 0, 9, 1}, {10, 27, 9, 1}, {20, 0, 3, 0}};
  for (const auto& v : lists) {
    const unsigned long long key = GET_TPL_TILING_KEY(v[0], v[1], v[2], v[3] != 0);
    std::printf("%llu %s\\n", key, optiling::KernelTemplate::Refusal().c_str());
  }
}
"""


def run(folder: Path, name: str, *sources: str) -> str:
    files = []
    for i, text in enumerate(sources):
        files.append(folder / f"{name}{i}.cpp")
        files[-1].write_text(text)
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", f"-I{TWIN / 'include'}"]
    if len(sources) > 1:
        flags[0] = "-std=c++17"  # the dump program's
    subprocess.run(["g++", *flags, *map(str, files), "-o", str(folder / name)], check=True)
    return subprocess.run([str(folder / name)], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> kernel_templates.KernelTemplate:
    dump = (TWIN / "opbuild/templates/dump_definitions.cpp").read_text()
    data = json.loads(run(tmp_path_factory.mktemp("dump"), "dump", HEADER, dump))["kernel_templates"]
    (found,) = kernel_templates.parse([*data, *data])  # two files of op_host include the header
    return found


def tensor(name: str, *types: int) -> Parameter:
    marks = {"value_depend": False, "auto_contiguous": False, "follow": "", "type_list": [], "format_list": []}
    return Parameter(name=name, option="required", types=list(types), formats=[2] * len(types), **marks)


ADD = Operator(
    type="AddCustom",
    inputs=[tensor("x", 0, 0), tensor("y", 0, 0)],
    outputs=[tensor("z", 0, 27)],
    attributes=[],
    has_tiling=True,
    socs=[],
)


def test_the_host_computes_the_keys_that_the_builder_builds(template, tmp_path):
    built = {c.values: c for c in template.combinations({})}
    assert len(built) == 2 * 2 + 2 * 2  # the first selection takes all declared values of D_T_Z
    lines = [line.split(" ", 1) for line in run(tmp_path, "ask", HEADER + ASK).splitlines()]
    asked = [(20, 0, 2, 0), (20, 27, 1, 0), (10, 0, 40, 1), (20, 0, 9, 1), (10, 27, 9, 1), (20, 0, 3, 0)]
    for values, (key, refusal) in zip(asked[:4], lines, strict=False):
        assert (int(key), refusal) == (built[values].key, "")
    assert len({c.key for c in built.values()}) == len(built)
    none = "no ASCENDC_TPL_ARGS_SEL of AddCustom has this combination"
    assert lines[4] == [str(2**64 - 1), f"D_T_X = 10, D_T_Z = 27, TILES = 9, SPLIT = 1: {none}"]
    assert lines[5] == [str(2**64 - 1), "TILES = 3 is none of its values in ASCENDC_TPL_ARGS_DECL(AddCustom, ..)"]
    assert {c.kernel_type for c in built.values() if c.values[3] == 0} == {"KERNEL_TYPE_MIX_AIC_1_2"}
    assert {c.kernel_type for c in built.values() if c.values[3] == 1} == {""}


def test_a_bound_data_type_is_that_of_the_operators_column(template):
    assert template.bound(ADD) == {"D_T_Z": "z"}
    types = [{"D_T_Z": ADD.types(column)["z"]} for column in (0, 1)]
    assert [len(template.combinations(t)) for t in types] == [6, 2]
    assert {c.values[1] for c in template.combinations(types[1])} == {27}
    with pytest.raises(DefinitionError, match="D_T_Z is of number 0 of 0 outputs"):
        template.bound(replace(ADD, outputs=[]))


def test_the_entry_calls_the_instance_of_each_key(template):
    text = """
template <int a> struct Other {};
template <typename T>
class Kernel { template <int N> void add_custom_part(int); };
template <int D_T_X, typename D_T_Z, std::common_type_t<int, unsigned> TILES, bool SPLIT = true>
# 12 "x.cpp"
 void add_custom(uint8_t* x) {}
"""
    parameters = kernel_templates.parameters_of_kernel(text, ADD)
    assert parameters == ["int D_T_X", "typename D_T_Z", "std::common_type_t<int, unsigned> TILES", "bool SPLIT = true"]
    combinations = template.combinations({"D_T_Z": 27})
    lines = kernel_templates.entry(ADD, combinations, parameters, 2).splitlines()
    given = "static_cast<int>(20), bfloat16_t, static_cast<std::common_type_t<int, unsigned>>(2), static_cast<bool>(0)"
    key = next(c.key for c in combinations if c.values == (20, 27, 2, 0))
    assert f"  KERNEL_TASK_TYPE({key}ull, KERNEL_TYPE_MIX_AIC_1_2);" in lines
    assert f"  if (TILING_KEY_IS({key}ull)) return add_custom<{given}>(a0, a1);" in lines
    assert kernel_templates.parameters_of_kernel('extern "C" void add_custom(uint8_t* x) {}', ADD) is None
    with pytest.raises(DefinitionError, match="typename D_T_X: 20 is no data type"):
        kernel_templates.entry(ADD, template.combinations({}), ["typename D_T_X", *parameters[1:]], 2)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"bits": 0}, "D_T_X has 2 values, 0 bits hold 1"),
        ({"values": ()}, "D_T_X has no values"),
        ({"bits": 60}, "take 77 bits, a tiling key has 64"),
        ({"name": "OTHER"}, "D_T_X is not declared"),
        ({"values": (10,)}, "ASCENDC_TPL_ARGS_SEL number 0: D_T_X = 20 is not declared"),
    ],
)
def test_faults_of_a_declaration_are_named(template, change, fault):
    first, *others = template.declared
    declared = [vars(p) for p in (replace(first, **change), *others)]
    entry = {"op": "AddCustom", "declared": declared}
    entry["selections"] = [[vars(p) for p in selection] for selection in template.selections]
    with pytest.raises(DefinitionError, match=fault):
        kernel_templates.parse([entry])
