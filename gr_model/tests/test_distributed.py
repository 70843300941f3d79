"""Two and four processes against one: losses, metrics, checkpoints. Dropout, clipping, warm-up and average are on.

One launch of four processes serves all numbers of them, because their imports take longer than their training.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gr_model.tests import distributed_program as program
from gr_model.tests.launch import free_port, launch

PIPELINED = ("row_wise+", "hash+", "embcache+")
IN_BATCH = ("static&", "row_wise&+")
CASES = ("static", "ranking", "row_wise", "table_wise", "column_wise", "hash", "embcache", *PIPELINED, *IN_BATCH)
RESUMED = ("static@2", "row_wise+@2", "table_wise@2", "column_wise@2", "hash@2", "embcache+@2")
FROM_FOUR = ("static@4", "row_wise@4", "table_wise@4", "column_wise@4", "hash@4")
IN_PIECES = ("fsdp-static", "fsdp-row_wise+", "fsdp-embcache")
BF16 = ("bf16-static", "bf16-ranking", "bf16-row_wise")
# Of four processes no twins of what two show; ON_NPU has the other cases of four.
OF_FOUR = ("static", "row_wise", "table_wise", "column_wise", "hash", "embcache", "embcache+", "row_wise&+")
GO_ON = {1: RESUMED, 2: RESUMED, 4: ("static@2", "row_wise+@2", "column_wise@2", "hash@2", "embcache+@2")}
ON_NPU = {
    2: (
        "static",
        "ranking",
        "table_wise",
        "column_wise",
        *PIPELINED,
        "static&",
        "static@2",
        "row_wise+@2",
        "embcache+@2",
        *IN_PIECES,
        "fsdp-ranking",
    ),
    4: ("static", "ranking", "row_wise", "embcache+", "static@2", "hash+@2", "fsdp-row_wise+"),
}
PIECES_GO_ON = ("fsdp-static@2", "fsdp-row_wise+@2")
ADAM = ("adam-row_wise", "adam-row_wise@2")  # of sharded tables; fbgemm has none on the CPU
TOLERANCE = 1e-5
Record = dict[str, object]


def trained(folder: Path, *parts: tuple[str, int, tuple[str, ...]]) -> dict[int, dict[str, Record]]:
    """Records by number of processes and case, of parts (kind of device, processes, cases) in this order."""
    words = [f"{kind}:{processes}:{free_port()}:{','.join(cases)}" for kind, processes, cases in parts]
    npu = "1" if any(kind == "npu" for kind, _, _ in parts) else "0"  # torch_npu is most of an import's time
    argv = [str(program.__file__), str(folder), *words]
    launch(max(processes for _, processes, _ in parts), argv, folder, TORCH_DEVICE_BACKEND_AUTOLOAD=npu)
    found: dict[int, dict[str, Record]] = {processes: {} for _, processes, _ in parts}
    for _, processes, cases in parts:
        found[processes] |= {case: json.loads((folder / f"{processes}-{case}.json").read_text()) for case in cases}
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Record]]:
    """On the CPU. Two processes first: the others go on from their checkpoints, and two again from those of four."""
    return trained(
        tmp_path_factory.mktemp("cpu"),
        ("cpu", 2, (*CASES, *RESUMED)),
        ("cpu", 1, (*CASES, *RESUMED, *BF16)),
        ("cpu", 4, (*OF_FOUR, *GO_ON[4])),
        ("cpu", 2, FROM_FOUR),
    )


@pytest.fixture(scope="module")
def on_npu(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Record]]:
    """And under 1 what one process on the CPU makes of checkpoints of two NPUs with the dense part in pieces."""
    of_four = [("npu", 4, (*ON_NPU[4], *ADAM))]
    return trained(
        tmp_path_factory.mktemp("npu"),
        ("npu", 2, (*ON_NPU[2], *PIECES_GO_ON, *BF16, *ADAM)),
        *(of_four if int(os.environ.get("GRSTACK_NPUS") or 4) >= 4 else []),
        ("cpu", 1, PIECES_GO_ON),
    )


def assert_equal(got: Record, expected: Record) -> None:
    assert len(expected["losses"]) == program.STEPS
    assert got["losses"] == pytest.approx(expected["losses"][got["first"] :], rel=TOLERANCE)
    assert len(got["losses"]) == program.STEPS - got["first"]
    assert got["metrics"] == pytest.approx(expected["metrics"], rel=1e-3)
    assert got["midway"] in ({}, pytest.approx(expected["midway"], rel=1e-3))


@pytest.mark.parametrize(("processes", "case"), [*((2, case) for case in CASES), *((4, case) for case in OF_FOUR)])
def test_processes_equal_one(runs: dict[int, dict[str, Record]], processes: int, case: str) -> None:
    assert_equal(runs[processes][case], runs[1][case])
    assert len(set(runs[1][case]["losses"])) == program.STEPS  # nothing stands still


@pytest.mark.parametrize(("processes", "case"), [(n, case) for n, cases in GO_ON.items() for case in cases])
def test_a_checkpoint_of_two_processes_goes_on(runs: dict[int, dict[str, Record]], processes: int, case: str) -> None:
    whole, resumed = runs[2][case.partition("@")[0]], runs[processes][case]
    assert resumed["first"] == program.SAVED_AT
    assert_equal(resumed, whole)
    if processes == 2:
        assert resumed["losses"] == whole["losses"][program.SAVED_AT :]  # to the last bit


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_the_pipeline_changes_no_bit(runs: dict[int, dict[str, Record]], processes: int) -> None:
    for case in set(PIPELINED) & set(runs[processes]):
        piped, plain = runs[processes][case], runs[processes][case.rstrip("+")]
        assert piped["losses"] == plain["losses"] and piped["metrics"] == plain["metrics"]
        assert set(piped["phases"]) == {*plain["phases"], "distribution"}


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_embcache_equals_hash(runs: dict[int, dict[str, Record]], processes: int) -> None:
    assert runs[processes]["embcache"]["losses"] == runs[processes]["hash"]["losses"]
    assert runs[processes]["embcache"]["metrics"] == runs[processes]["hash"]["metrics"]


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_rows_of_embcache_are_on_disk(runs: dict[int, dict[str, Record]], processes: int) -> None:
    """On that of every process: or these cases would be those of a table in memory."""
    for case, record in runs[processes].items():
        on_disk = record["on_disk"]
        assert isinstance(on_disk, list) and len(on_disk) == processes
        assert all(rows > 20 for rows in on_disk) if "embcache" in case else not any(on_disk), (case, on_disk)


def test_every_user_of_a_step_is_shown_once(runs: dict[int, dict[str, Record]]) -> None:
    """Also in the last step of an epoch, which has two users for four processes."""
    for processes in (1, 2, 4):
        assert runs[processes]["static"]["users"] == [7, 7, 7, 7, 2] * (program.STEPS // 5)


def test_columns_are_spread_over_the_processes(runs: dict[int, dict[str, Record]]) -> None:
    for processes, columns in ((1, [8]), (2, [4, 4]), (4, [0, 0, 4, 4])):
        assert sorted(runs[processes]["column_wise"]["columns"]) == columns
        assert sorted(runs[processes]["table_wise"]["columns"]) == [*[0] * (processes - 1), 8]


@pytest.mark.parametrize("case", FROM_FOUR)
def test_a_checkpoint_of_four_processes_goes_on_with_two(runs: dict[int, dict[str, Record]], case: str) -> None:
    assert runs[2][case]["first"] == program.SAVED_AT
    assert_equal(runs[2][case], runs[4][case.partition("@")[0]])


@pytest.mark.twin
@pytest.mark.parametrize(("processes", "case"), [(n, case) for n, cases in ON_NPU.items() for case in cases])
def test_processes_on_npus_equal_one_on_the_cpu(runs, on_npu, processes: int, case: str) -> None:
    """Of a dense part in pieces too, whose like is the same case without them."""
    got = on_npu[processes][case]
    assert_equal(got, runs[1][case.partition("@")[0].removeprefix("fsdp-")])
    assert got["pieces"] == (1.0 if case.startswith("fsdp-") else 0.0)


@pytest.mark.twin
@pytest.mark.npus(2)
@pytest.mark.parametrize("case", PIECES_GO_ON)
def test_pieces_of_the_dense_part_go_on(on_npu, case: str) -> None:
    """On as many processes to the last bit; on one, which has no pieces, to rounding."""
    whole = on_npu[2][case.partition("@")[0]]
    assert on_npu[2][case]["losses"] == whole["losses"][program.SAVED_AT :]
    assert_equal(on_npu[1][case], whole)


@pytest.mark.twin
@pytest.mark.npus(4)
def test_sharded_tables_train_by_adam(runs, on_npu) -> None:
    """Two and four processes alike, and after a checkpoint with the bias correction of the steps before it. The values
    of a step: recipes/torchrec/tests/test_npu_tables.py."""
    whole, resumed = (on_npu[2][case] for case in ADAM)
    for processes in (2, 4):
        for case in ADAM:
            assert_equal(on_npu[processes][case], whole)
    assert resumed["losses"] == whole["losses"][program.SAVED_AT :]  # to the last bit
    assert whole["losses"][0] == pytest.approx(runs[1]["row_wise"]["losses"][0], rel=TOLERANCE)
    assert whole["losses"][-1] != pytest.approx(runs[1]["row_wise"]["losses"][-1], rel=1e-3)


@pytest.mark.twin
@pytest.mark.npus(2)
@pytest.mark.parametrize("case", BF16)
def test_bfloat16_on_npus(runs, on_npu, case: str) -> None:
    """Products of matrices keep 8 bits: 20 steps stay within 2 % of the CPU's in bfloat16 and in float32."""
    got, wide = on_npu[2][case], runs[1][case.removeprefix("bf16-")]
    for expected in (runs[1][case], wide):
        assert got["losses"] == pytest.approx(expected["losses"], rel=0.02)
        assert got["losses"][0] == pytest.approx(expected["losses"][0], rel=2e-3)
        assert got["metrics"] == pytest.approx(expected["metrics"], abs=0.05)
    assert got["losses"] != pytest.approx(wide["losses"], rel=1e-5)  # it was not float32
    assert got["losses"][-1] < 0.9 * got["losses"][0]
