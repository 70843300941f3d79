"""Inputs whose values the tiling reads, outputs whose shape the kernel writes, tensors in place: calls and refusals."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.twin
X = np.arange(12, dtype=np.float32).reshape(4, 3)
TIMES = np.array([2, 0, 1, 3])
REPEATED = X.repeat(TIMES, 0)


@pytest.fixture
def call(vendor, host):
    return lambda *arguments, **form: host.call(vendor / "op_api/lib/libcust_opapi.so", *arguments, **form)


def test_values_are_given_as_an_array_or_as_a_tensor_of_the_host(call):
    import aclnn_host

    for given, form in ((aclnn_host.Ints(TIMES.tolist()), ""), (aclnn_host.HostTensor(TIMES), "Tensor")):
        y = np.empty_like(REPEATED)
        call("RepeatInterleaveCustom", X, given, y, form=form)
        np.testing.assert_array_equal(y, REPEATED)


def test_the_shape_function_reads_them(call):
    import aclnn_host

    with pytest.raises(RuntimeError, match=r"161002: .*output 0 has shape \[5, 3\], expected \[6, 3\]"):
        call("RepeatInterleaveCustom", X, aclnn_host.Ints(TIMES.tolist()), np.empty((5, 3), np.float32))


def test_values_in_device_memory_are_refused(call):
    with pytest.raises(RuntimeError, match="161002: .*repeats lies in device memory.*give a tensor in host memory"):
        call("RepeatInterleaveCustom", X, TIMES, np.empty_like(REPEATED), form="Tensor")


def test_values_of_another_type_are_refused(call):
    import aclnn_host

    with pytest.raises(RuntimeError, match="161002: .*no declared combination has the data types 0 3 0"):
        given = aclnn_host.HostTensor(TIMES.astype(np.int32))
        call("RepeatInterleaveCustom", X, given, np.empty_like(REPEATED), form="Tensor")


def test_both_forms_are_in_the_header(vendor):
    header = (vendor / "op_api/include/aclnn_repeat_interleave_custom.h").read_text()
    assert "aclnnRepeatInterleaveCustomGetWorkspaceSize(const aclTensor *x, const aclIntArray *repeats, " in header
    assert "aclnnRepeatInterleaveCustomTensorGetWorkspaceSize(const aclTensor *x, const aclTensor *repeats, " in header
    assert "aclnnExpTensor" not in (vendor / "op_api/include/aclnn_exp.h").read_text()


def keep(call, count: int, form: str, room: int = 10) -> tuple[Any, ...]:
    import aclnn_host

    x = np.arange(10, dtype=np.float32)
    y, total, index = np.empty(room, np.float32), np.empty(1, np.float32), np.empty(10, np.int32)
    outputs = (aclnn_host.Shaped(y), total, aclnn_host.Shaped(index))
    call("KeepFirst", x, count, form, *outputs)
    return outputs


@pytest.mark.parametrize("form", ["wide", "narrow"])
@pytest.mark.parametrize("count", [0, 1, 7, 10])
def test_outputs_get_the_shapes_that_the_kernel_writes(call, form, count):
    y, total, index = keep(call, count, form)
    assert (y.shape, index.shape) == ([count], [count, 1])
    np.testing.assert_array_equal(y.result, np.arange(count))
    np.testing.assert_array_equal(index.result[:, 0], np.arange(count))
    assert total == count * (count - 1) / 2


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("none", "the shape of y .* was not written"),
        ("unmarked", "the shape of y .* has more than its 1 dimensions: words of 64 bits are marked by bit 31"),
        ("nine", "the shape of y .* has 9 dimensions, at most 8 fit"),
        ("large", r"the shape of y .* is \[11\], the tensor has room for 10 elements"),
    ],
)
def test_a_wrong_record_is_an_error_of_the_launch(call, form, words):
    with pytest.raises(RuntimeError, match=f"507015: .*KeepFirst: {words}"):
        keep(call, 3, form)


def test_an_output_of_no_known_shape_is_contiguous(call):
    import aclnn_host

    x, total, index = np.ones(4, np.float32), np.empty(1, np.float32), np.empty(4, np.int32)
    with pytest.raises(RuntimeError, match="161002: .*y must be contiguous: the kernel decides on its shape"):
        strided = aclnn_host.Shaped(np.empty(8, np.float32)[::2])
        call("KeepFirst", x, 2, "wide", strided, total, aclnn_host.Shaped(index))


def test_values_that_were_asked_for_in_vain_are_named(call):
    with pytest.raises(RuntimeError, match=r"561002: .*; it asked for the values of x, which ValueDepend\(REQUIRED\)"):
        keep(call, 2, "values")


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("strided", [False, True])
def test_a_tensor_in_place_keeps_what_the_kernel_does_not_store(call, monkeypatch, strided, lenient):
    if lenient:
        monkeypatch.setenv("TWIN_LENIENT", "1")
    y = np.arange(1400, dtype=np.float32)[:: 2 if strided else 1][:601]
    x = np.where(np.arange(601) // 256 == 1, 0, 1).astype(np.float32)
    expected = y + 3 * x
    call("AxpyInPlace", y, x, 3.0)
    np.testing.assert_array_equal(y, expected)


def test_a_tensor_in_place_is_one_argument(vendor):
    header = (vendor / "op_api/include/aclnn_axpy_in_place.h").read_text()
    assert (
        "aclnnAxpyInPlaceGetWorkspaceSize(aclTensor *yRef, const aclTensor *x, double alphaOptional, uint64_t" in header
    )


def parameter(**given: Any) -> dict[str, Any]:
    base = {"name": "x", "option": "required", "types": [0], "type_list": [], "formats": [2], "format_list": []}
    return {**base, "value_depend": False, "auto_contiguous": True, "follow": "", **given}


@pytest.mark.parametrize(
    ("inputs", "outputs", "words"),
    [
        ({"shape_by_kernel": True}, {}, "x: OutputShapeDependOnCompute is for outputs"),
        ({}, {"shape_by_kernel": True, "option": "dynamic"}, "y: OutputShapeDependOnCompute of a list of outputs"),
        ({"value_depend": True, "types": [1]}, {}, "x: ValueDepend needs data types that are all integers"),
        ({"value_depend": True, "types": [0, 9]}, {"types": [0, 0]}, "x: ValueDepend needs data types that are all"),
        ({"value_depend": True, "types": [3]}, {}, "x: ValueDepend of integers needs a column of INT64"),
        ({"value_depend": True, "option": "dynamic"}, {}, "x: ValueDepend of a list of inputs"),
        ({"type_list": [3, 9]}, {}, "x: DataTypeList goes with tensors, without DataType"),
        ({"option": "optional"}, {"name": "x"}, "x: an input and output of one name .* are a required tensor"),
        ({}, {"name": "x", "types": [1]}, "x: the input and the output of that name have different data types"),
    ],
)
def test_definitions_that_break_a_rule_are_refused_by_name(inputs, outputs, words):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "opbuild"))
    from definition import DefinitionError, check, parse

    entry = {"type": "Some", "attributes": [], "has_tiling": True, "socs": ["ascend910b"], "overrides": []}
    for side in (inputs, outputs):  # as many formats as data types
        side.setdefault("formats", [2] * len(side.get("types", [0])))
    entry |= {"inputs": [parameter(**inputs)], "outputs": [parameter(**{"name": "y", **outputs})]}
    (op,) = parse({"operators": [entry]}, ["ascend910b"])
    with pytest.raises(DefinitionError, match=words):
        check(op)
