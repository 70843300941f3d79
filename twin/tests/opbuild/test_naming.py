"""Names made from an operator's type: with digits, runs of capitals, and words of one letter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "opbuild"))

from definition import Attribute, DefinitionError, Operator, Parameter, check, check_socs, parse  # noqa: E402
from naming import lower_camel, snake_case  # noqa: E402


@pytest.mark.parametrize(
    ("op_type", "snake"),
    [
        ("AddCustom", "add_custom"),
        ("JaggedToDense", "jagged_to_dense"),
        ("AbcAAc", "abc_a_ac"),
        ("HSTUForward", "hstu_forward"),
        ("TopK2D", "top_k2_d"),
    ],
)
def test_snake_case(op_type, snake):
    assert snake_case(op_type) == snake


@pytest.mark.parametrize(("name", "camel"), [("x", "x"), ("grad_out", "gradOut"), ("max_lengths", "maxLengths")])
def test_lower_camel(name, camel):
    assert lower_camel(name) == camel


def parameter(name: str, option: str = "required", types: tuple[int, ...] = (0,), **more) -> Parameter:
    fields = {"type_list": [], "formats": [2] * len(types), "format_list": [], "value_depend": False}
    fields |= {"auto_contiguous": False, "follow": ""}
    return Parameter(name=name, option=option, types=list(types), **{**fields, **more})


def operator(**changes) -> Operator:
    fields = {
        "type": "FooBar",
        "inputs": [parameter("grad_out"), parameter("tables", "dynamic"), parameter("bias", "optional")],
        "outputs": [parameter("y")],
        "attributes": [Attribute(name="max_len", option="optional", kind="int", has_default=True)],
        "has_tiling": True,
        "socs": ["ascend910b"],
    }
    return Operator(**{**fields, **changes})


def test_c_parameters_follow_the_declaration():
    assert operator().arguments() == [
        ("const aclTensor *", "gradOut"),
        ("const aclTensorList *", "tables"),
        ("const aclTensor *", "biasOptional"),
        ("int64_t ", "maxLenOptional"),
        ("const aclTensor *", "out"),
    ]
    roles = [role for role, _ in operator().handed_over()]
    assert roles == ["Input", "Input", "Input", "Attribute", "Output"]


def test_several_outputs_keep_their_names():
    op = operator(outputs=[parameter("y"), parameter("z")])
    assert [name for _, name in op.arguments()][-2:] == ["yOut", "zOut"]
    assert op.handed_over()[-2:] == [("Output", "yOut"), ("Output", "zOut")]


def test_what_is_in_place_is_one_argument_and_handed_over_twice():
    op = operator(inputs=[parameter("w"), parameter("x")], outputs=[parameter("w"), parameter("y")], attributes=[])
    assert op.arguments() == [("aclTensor *", "wRef"), ("const aclTensor *", "x"), ("const aclTensor *", "out")]
    assert op.handed_over() == [("Input", "wRef"), ("Input", "x"), ("Output", "wRef"), ("Output", "out")]


def test_a_sound_definition_passes():
    check(operator())


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"inputs": [parameter("lambda")]}, "name 'lambda' is not allowed"),
        ({"inputs": [parameter("x", types=(0, 1))], "outputs": [parameter("y")]}, "y: 1 data types"),
        ({"inputs": [parameter("w", "optional")], "outputs": [parameter("w")]}, "in place"),
        ({"has_tiling": False}, "no tiling function"),
        ({"attributes": [Attribute(name="a", option="optional", kind="int", has_default=False)]}, "without a default"),
    ],
)
def test_faults_are_named(changes, fault):
    with pytest.raises(DefinitionError, match=fault):
        check(operator(**changes))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"inputs": [parameter("input")]}, "name 'input' is not allowed"),
        ({"attributes": [Attribute(name="a", option="required", kind="int", has_default=True)]}, "with a default"),
    ],
)
def test_what_the_toolkit_lets_pass_is_an_error_in_strict_builds_only(changes, fault):
    check(operator(**changes), strict=False)
    with pytest.raises(DefinitionError, match=fault):
        check(operator(**changes))


def override(soc: str, *types: int) -> dict:
    given = [{**vars(parameter("x", types=types))}]
    return {"soc": soc, "inputs": given, "outputs": []}


def test_parameters_of_a_soc_stand_in_the_place_of_the_operators_own():
    entry = {"type": "FooBar", "attributes": [], "has_tiling": True, "socs": ["ascend910b", "ascend310p"]}
    entry |= {"inputs": [vars(parameter("x"))], "outputs": [vars(parameter("y"))]}
    entry["overrides"] = [override("ascend910b", 0, 1), {"soc": "ascend310p", "inputs": [], "outputs": []}]
    assert parse({"operators": [entry]}, ["ascend910b"])[0].inputs[0].types == [0, 1]
    assert parse({"operators": [entry]}, ["ascend310p"])[0].inputs[0].types == [0]
    with pytest.raises(DefinitionError, match="the inputs differ between ascend910b, ascend310p"):
        parse({"operators": [entry]}, ["ascend910b", "ascend310p"])


def test_every_soc_that_is_asked_for_must_be_declared():
    check_socs([operator(socs=["ascend910b", "ascend910_93"])], ["ascend910_93"])
    with pytest.raises(DefinitionError, match="FooBar is to be built for ascend310p.*declares ascend910b$"):
        check_socs([operator()], ["ascend910b", "ascend310p"])
