"""Two and four processes against one: losses, metrics, checkpoints. Dropout, clipping, warm-up and average are on.

The launches are few because the imports of a process take longer than its training.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gr_model.tests import distributed_program as program
from gr_model.tests.launch import launch

PIPELINED = ("row_wise+", "hash+", "embcache+")
CASES = ("static", "ranking", "row_wise", "table_wise", "column_wise", "hash", "embcache", *PIPELINED)
RESUMED = ("static@2", "row_wise+@2", "hash@2", "embcache+@2")
ON_NPU = {
    2: (*CASES[:5], *PIPELINED, "static@2", "row_wise+@2", "embcache+@2"),
    4: ("static", "ranking", "row_wise", "embcache+", "static@2", "hash+@2"),
}
TOLERANCE = 1e-5
Record = dict[str, object]


def trained(folder: Path, kind: str, processes: int, cases: tuple[str, ...]) -> dict[str, Record]:
    launch(processes, [str(program.__file__), kind, str(folder), ",".join(cases)], folder)
    return {case: json.loads((folder / f"{processes}-{case}.json").read_text()) for case in cases}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Record]]:
    """On the CPU. Two processes first: the others go on from their checkpoints."""
    folder = tmp_path_factory.mktemp("cpu")
    return {processes: trained(folder, "cpu", processes, (*CASES, *RESUMED)) for processes in (2, 1, 4)}


@pytest.fixture(scope="module")
def on_npu(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Record]]:
    folder = tmp_path_factory.mktemp("npu")
    first = trained(folder, "npu", 2, (*ON_NPU[2], "fsdp", "fsdp@2"))
    return {2: first, 4: trained(folder, "npu", 4, ON_NPU[4])}


def assert_equal(got: Record, expected: Record) -> None:
    assert len(expected["losses"]) == program.STEPS
    assert got["losses"] == pytest.approx(expected["losses"][got["first"] :], rel=TOLERANCE)
    assert len(got["losses"]) == program.STEPS - got["first"]
    assert got["metrics"] == pytest.approx(expected["metrics"], rel=1e-3)
    assert got["midway"] in ({}, pytest.approx(expected["midway"], rel=1e-3))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("processes", [2, 4])
def test_processes_equal_one(runs: dict[int, dict[str, Record]], processes: int, case: str) -> None:
    assert_equal(runs[processes][case], runs[1][case])
    assert len(set(runs[1][case]["losses"])) == program.STEPS  # nothing stands still


@pytest.mark.parametrize("case", RESUMED)
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_a_checkpoint_of_two_processes_goes_on(runs: dict[int, dict[str, Record]], processes: int, case: str) -> None:
    whole, resumed = runs[2][case.partition("@")[0]], runs[processes][case]
    assert resumed["first"] == program.SAVED_AT
    assert_equal(resumed, whole)
    if processes == 2:
        assert resumed["losses"] == whole["losses"][program.SAVED_AT :]  # to the last bit


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_the_pipeline_changes_no_bit(runs: dict[int, dict[str, Record]], processes: int) -> None:
    for case in PIPELINED:
        piped, plain = runs[processes][case], runs[processes][case.rstrip("+")]
        assert piped["losses"] == plain["losses"] and piped["metrics"] == plain["metrics"]
        assert set(piped["phases"]) == {*plain["phases"], "distribution"}


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_embcache_equals_hash(runs: dict[int, dict[str, Record]], processes: int) -> None:
    assert runs[processes]["embcache"]["losses"] == runs[processes]["hash"]["losses"]
    assert runs[processes]["embcache"]["metrics"] == runs[processes]["hash"]["metrics"]


def test_every_user_of_a_step_is_shown_once(runs: dict[int, dict[str, Record]]) -> None:
    """Also in the last step of an epoch, which has two users for four processes."""
    for processes in (1, 2, 4):
        assert runs[processes]["static"]["users"] == [7, 7, 7, 7, 2] * (program.STEPS // 5)


@pytest.mark.twin
@pytest.mark.parametrize(("processes", "case"), [(n, case) for n, cases in ON_NPU.items() for case in cases])
def test_processes_on_npus_equal_one_on_the_cpu(runs, on_npu, processes: int, case: str) -> None:
    assert_equal(on_npu[processes][case], runs[1][case.partition("@")[0]])


@pytest.mark.twin
def test_pieces_of_the_dense_part_on_npus(runs, on_npu) -> None:
    assert_equal(on_npu[2]["fsdp"], runs[1]["static"])
    assert on_npu[2]["fsdp@2"]["losses"] == on_npu[2]["fsdp"]["losses"][program.SAVED_AT :]
