"""What operators of third parties may do only where TWIN_LENIENT asks for it."""

from __future__ import annotations

import numpy as np
import pytest
from row_cases import above_mean
from third_party_case import Case, run
from third_party_cases import CASES, name_of

pytestmark = pytest.mark.twin

RULES = (("AbsPadded", "E-17"), ("LogSumExp", "E-11"), ("ChooseRows", "E-17"))


@pytest.mark.parametrize(
    ("case", "rule"),
    [(case, rule) for case in CASES for t, rule in RULES if case.type == t],
    ids=lambda value: name_of(value) if isinstance(value, Case) else value,
)
def test_what_a_padded_allocation_and_the_compiler_forgive_is_an_error_unless_asked_for(
    host, few, case, rule, monkeypatch
):
    monkeypatch.setenv("TWIN_LENIENT", "Exp,SubCustom")  # others' names
    with pytest.raises(RuntimeError, match=rf"507015: .*\[{rule}\]"):
        run(host, few, case, 7)


def test_lenient_copies_leave_what_lies_behind_a_tensor_alone(host, few, monkeypatch):
    monkeypatch.setenv("TWIN_LENIENT", "1")
    x = np.arange(-8, 8, dtype=np.float32)
    y = np.full(16, 77, np.float32)
    host.call(few, "AbsPadded", x[:11], y[:11])
    assert (y[:11] == np.abs(x[:11])).all() and (y[11:] == 77).all()


def test_a_lenient_caller_says_the_outputs_shapes(host, few, monkeypatch):
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    y = np.empty(35, bool)
    with pytest.raises(RuntimeError, match=r"161002: .*output 0 has shape \[35\], expected \[5, 7\]"):
        host.call(few, "AboveMean", x, y)
    monkeypatch.setenv("TWIN_LENIENT", "AboveMean")
    host.call(few, "AboveMean", x, y)
    np.testing.assert_array_equal(y.reshape(5, 7), above_mean(x))
