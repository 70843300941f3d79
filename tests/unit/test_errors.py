from __future__ import annotations

import re

import grstack.errors as errors
from grstack.errors import GrstackError, UsageError


def _classes() -> list[type[GrstackError]]:
    return [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, GrstackError)]


def test_every_class_has_its_own_exit_code() -> None:
    codes = [error.exit_code for error in _classes()]
    assert len(set(codes)) == len(codes)
    assert 0 not in codes


def test_the_drawn_tree_is_the_tree() -> None:
    drawn = dict(re.findall(r"(\w+) \((\d+)\)", errors.__doc__ or ""))
    assert {name: int(code) for name, code in drawn.items()} == {
        error.__name__: error.exit_code for error in _classes()
    }


def test_message_says_what_where_and_the_next_command() -> None:
    error = GrstackError("no lock", where="locks/npu.json", next_command="inv lock")
    assert str(error) == "no lock\n  where: locks/npu.json\n  next:  inv lock"
    assert str(GrstackError("no lock")) == "no lock"


def test_unknown_name_lists_the_valid_ones() -> None:
    error = UsageError.unknown("target", "gpu", ["npu", "cpu"])
    assert error.what == "unknown target 'gpu'; valid: cpu, npu"
