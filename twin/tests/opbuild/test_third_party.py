"""Operators as third parties write them, built in one package and compared with numpy in float64.

A few are built and run in every test run; all of them in the slow test.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from package_of import FEW, build
from third_party_case import run
from third_party_cases import CASES, name_of

HERE = Path(__file__).resolve().parent / "third_party"

pytestmark = pytest.mark.twin


@pytest.mark.parametrize("case", [case for case in CASES if case.snake in FEW], ids=name_of)
def test_operator_gives_what_numpy_gives(host, few, case, monkeypatch):
    if case.lenient:
        monkeypatch.setenv("TWIN_LENIENT", case.type)
    for size in case.sizes:
        run(host, few, case, size)


def test_a_scalar_of_another_type_is_converted(host, few):
    import aclnn_host

    x = np.arange(-5, 5, dtype=np.float32)
    y = np.empty_like(x)
    host.call(few, "ClipByValue", x, aclnn_host.Scalar(np.array(-2, np.int64)), aclnn_host.Scalar(np.array(1.5)), y)
    np.testing.assert_array_equal(y, np.clip(x, -2, 1.5))


@pytest.mark.parametrize(
    ("length", "dtype", "shift", "reason"),
    [
        (2000, "float32", 0.5, "D_T_X = 0, BUFFERS = 3, HAS_SHIFT = 1: no ASCENDC_TPL_ARGS_SEL of AffineTemplate has"),
        (8, "float16", 0.0, "D_T_X = 1, BUFFERS = 1, HAS_SHIFT = 0: no ASCENDC_TPL_ARGS_SEL of AffineTemplate has"),
    ],
)
def test_template_parameters_that_are_not_selected_are_refused(host, few, length, dtype, shift, reason):
    x = np.ones(length, dtype)
    with pytest.raises(RuntimeError, match=rf"561003: .*no kernel for tiling key \d+: {reason}"):
        host.call(few, "AffineTemplate", x, 2.0, shift, np.empty_like(x))


@pytest.mark.slow
def test_every_operator_gives_what_numpy_gives(host, tmp_path, monkeypatch):
    names = {case.snake for case in CASES}
    library = build(tmp_path, names, "--any-soc") / "op_api/lib/libcust_opapi.so"
    faults = []
    for case in CASES:
        with monkeypatch.context() as patch:
            if case.lenient:
                patch.setenv("TWIN_LENIENT", case.type)
            for size in case.sizes:
                try:
                    run(host, library, case, size)
                except (AssertionError, RuntimeError) as error:
                    faults.append(f"{name_of(case)} of size {size}: {str(error)[:400]}")
    assert not faults, "\n".join(faults)
    assert len({case.snake for case in CASES}) == len(list((HERE / "op_kernel").glob("*.cpp"))) >= 20


def test_every_operator_has_a_case():
    kernels = {file.stem for file in (HERE / "op_kernel").glob("*.cpp")}
    assert kernels == {case.snake for case in CASES} == {file.stem for file in (HERE / "op_host").glob("*.cpp")}
    assert set(FEW) < kernels
    assert f"| {len(kernels)} in public idioms" in (HERE.parents[3] / "docs/twin.md").read_text()
