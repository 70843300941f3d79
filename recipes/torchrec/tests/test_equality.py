"""Sharded training on emulated NPUs with hccl against the CPU with gloo, 20 steps on 2 and 4 ranks, to 1e-6."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import equality_program as program
import pytest
import sharded_training
import torch
from sharded_training import Case

# One start of ranks gives the results of all sizes.
pytestmark = [pytest.mark.twin, pytest.mark.npus(max(program.WORLDS))]
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}
Results = dict[tuple[str, int], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def results(patched: str, tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("equality")
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "1",
        "TWIN_NPU_COUNT": "4",
        "PYTHONPATH": f"{patched}:{os.environ.get('PYTHONPATH', '')}",
    }
    if "TWIN_LIB64" in os.environ:
        env["LD_LIBRARY_PATH"] = f"{os.environ['TWIN_LIB64']}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    argv = [sys.executable, program.__file__, str(folder)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    loaded = {
        (kind, world): torch.load(folder / f"{kind}-{world}.pt", weights_only=False)
        for kind in ("npu", "cpu")
        for world in program.WORLDS
    }
    log = (folder / "ranks.log").read_text()[-4000:]
    for key, value in loaded.items():
        assert isinstance(value, list), f"{key}: {value}\n{log}"
    return loaded


def assert_equal(got: dict[str, Any], expected: dict[str, Any]) -> None:
    torch.testing.assert_close(torch.tensor(got["losses"]), torch.tensor(expected["losses"]), **TOLERANCE)
    for name in (*sharded_training.TABLES, "over"):
        torch.testing.assert_close(got[name], expected[name], **TOLERANCE)


@pytest.mark.parametrize("world", program.WORLDS)
@pytest.mark.parametrize("case", program.CASES, ids=lambda case: case.name)
def test_npu_hccl_equals_cpu_gloo(case: Case, world: int, results: Results) -> None:
    """The model sums the embeddings of a sample, so an EmbeddingCollection trains to what an EmbeddingBagCollection
    does, and that is its reference: fbgemm's CPU kernels have no unpooled lookup."""
    npu, cpu = (results[kind, world][0] for kind in ("npu", "cpu"))
    npu, cpu = npu[case.name], cpu[Case("bags", case.sharding, case.optimizer).name]
    assert len(npu["losses"]) == program.STEPS and len(npu["losses"][0]) == world
    assert all("/npu:" in placement for placement in npu["placements"])
    assert npu["losses"][0] != npu["losses"][-1]
    assert_equal(npu, cpu)


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
