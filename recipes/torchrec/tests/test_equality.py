"""Sharded training on emulated NPUs with hccl against the CPU with gloo, 20 steps on 2 and 4 ranks, to 1e-6."""

from __future__ import annotations

import equality_program as program
import equality_results
import pytest
import sharded_training
import torch
from equality_results import TOLERANCE, Results, assert_equal, check_case
from sharded_training import Case

# One start of ranks gives the results of all sizes.
pytestmark = [pytest.mark.twin, pytest.mark.npus(max(program.WORLDS))]


@pytest.fixture(scope="module")
def results(patched: str, tmp_path_factory: pytest.TempPathFactory) -> Results:
    worlds = sorted(program.WORLDS, reverse=True)  # 4 ranks save what 2 load
    return equality_results.of(worlds, patched, tmp_path_factory.mktemp("equality"))


@pytest.mark.parametrize("world", program.WORLDS)
@pytest.mark.parametrize("case", program.CASES, ids=lambda case: case.name)
def test_npu_hccl_equals_cpu_gloo(case: Case, world: int, results: Results) -> None:
    check_case(case, world, results)


@pytest.mark.parametrize("world", program.WORLDS)
def test_a_plan_of_the_planner_trains_to_the_same(world: int, results: Results) -> None:
    planned = results["npu", world][0][program.PLANNED.name]
    assert planned["placements"] and all("/npu:" in placement for placement in planned["placements"])
    assert_equal(planned, results["cpu", world][0]["bags-row_wise-sgd"])


@pytest.mark.parametrize("world", program.WORLDS)
def test_the_train_pipeline_trains_to_the_same(world: int, results: Results) -> None:
    pipelined = results["npu", world][0]["pipelined"]
    assert pipelined["pipelined"] == 1  # the embedding module's input is distributed ahead
    assert_equal(pipelined, results["cpu", world][0][program.PIPELINED.name])


@pytest.mark.parametrize("world", program.WORLDS)
def test_all_to_all_of_keyed_jagged_tensors(world: int, results: Results) -> None:
    """Each rank has its features of every rank's batch, sample after sample of rank after rank."""
    sources = [program.features_of(0, rank)[0] for rank in range(world)]
    ends = [sum(program.SPLITS[world][: rank + 1]) for rank in range(world)]
    for rank, count in enumerate(program.SPLITS[world]):
        keys = sharded_training.FEATURES[ends[rank] - count : ends[rank]]
        lengths = [int(n) for key in keys for source in sources for n in source[key].lengths()]
        values = [int(v) for key in keys for source in sources for v in source[key].values()]
        for kind in ("npu", "cpu"):
            got = results[kind, world][rank]["exchanged"]
            assert (got["keys"], got["lengths"].tolist(), got["values"].tolist()) == (keys, lengths, values)
            assert got["device"] == kind


def test_a_checkpoint_of_4_is_loaded_by_2(results: Results) -> None:
    """The tables and the optimizer's state are those that were saved, by another sharding, and training goes on."""
    saved = results["npu", 4][0]["saved"]
    for kind in ("npu", "cpu"):
        loaded = results[kind, 2][0]["continued"]["loaded"]
        for name in sharded_training.TABLES:
            assert torch.equal(loaded[name], saved[name])
            assert saved["momentum"][name].any()
            assert torch.equal(loaded["momentum"][name], saved["momentum"][name])
        assert torch.equal(loaded["over"], saved["over"])
    npu, cpu = (results[kind, 2][0]["continued"]["after"] for kind in ("npu", "cpu"))
    for name in (*sharded_training.TABLES, "over"):
        assert not torch.equal(npu[name], saved[name])
        torch.testing.assert_close(npu[name], cpu[name], **TOLERANCE)
