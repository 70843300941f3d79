"""TWIN_STREAMS=strict on two ranks: a collective that is not waited for is named, a DDP training is clean."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from test_torch import forked

pytestmark = pytest.mark.twin


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("strict")
    codes, said = forked("strict_collectives.py", 2, folder, TWIN_STREAMS="strict", TASK_QUEUE_ENABLE="0")
    assert codes == [0, 0], said
    return [json.loads(path.read_text()) for path in sorted(folder.glob("rank*.json"))]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("reduced", ("'aten::mul.Tensor' on stream ", "reads what 'HcclAllReduce' on stream ", "work.wait()")),
        ("overwritten", ("'aten::zero_' on stream ", "writes what 'HcclAllGather' on stream ", "reads;")),
    ],
)
def test_a_collective_that_is_not_waited_for_is_named(
    name: str, parts: tuple[str, ...], found: list[dict[str, Any]]
) -> None:
    for rank in found:
        repaired, faulty = rank[name]
        assert repaired == ""
        for part in parts:
            assert part in faulty, faulty


def test_data_parallel_training_is_clean(found: list[dict[str, Any]]) -> None:
    for rank in found:
        assert len(rank["trained"]) == 5 and all(math.isfinite(loss) for loss in rank["trained"])
