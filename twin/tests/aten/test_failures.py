"""Errors reach Python and name their cause; each in a process of its own."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.twin


@pytest.mark.parametrize("queue", ["0", "1", "2"])
def test_missing_function_is_named(program: Any, queue: str) -> None:
    done = program.process("failures", "missing_function", mode="aclnn", TASK_QUEUE_ENABLE=queue)
    assert done.returncode == 1, f"ended with {done.returncode}:\n{done.stderr}"
    assert "aclnnGroupNormSilu" in done.stderr, done.stderr


@pytest.mark.parametrize("queue", ["0", "1"])
def test_failing_kernel_is_named(program: Any, queue: str) -> None:
    done = program.process("failures", "index_out_of_range", mode="aclnn", TASK_QUEUE_ENABLE=queue)
    assert done.returncode != 0
    assert "aclnnEmbedding: index out of range" in done.stderr


def test_failing_kernel_of_the_override_raises_at_the_call(program: Any) -> None:
    done = program.process("failures", "index_out_of_range")
    assert done.returncode != 0
    assert "index out of range" in done.stderr


def test_generator_of_another_device_is_refused(program: Any) -> None:
    done = program.process("failures", "foreign_generator")
    assert done.returncode != 0
    assert "generator" in done.stderr
