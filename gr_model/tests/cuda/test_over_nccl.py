"""Two processes against one: over nccl where there is a GPU for each, over gloo elsewhere (test_distributed.py has
more cases there, and those of torchrec's tables)."""

import importlib.util
import json

import pytest
import torch

from gr_model.tests import distributed_program as program
from gr_model.tests.test_distributed import assert_equal, trained

KIND = "cuda" if torch.cuda.device_count() >= 2 else "cpu"
IN_PIECES = ("fsdp-static",) if KIND == "cuda" else ()
CASES = ("static", "ranking", "fused", *IN_PIECES)
# By the kernels for Hopper, and the same in float32.
BF16, WIDE = (("bf16-heads64", "bf16-fsdp-heads64"), ("heads64",)) if KIND == "cuda" else ((), ())
# With rows for ids that were seen, over the processes.
TABLES = ("hash", "hash+", *(("fsdp-hash", "fsdp-hash+") if KIND == "cuda" else ()))
with_tables = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torchrec", "hybrid_torchrec")),
    reason="TorchRec or hybrid_torchrec is not installed",
)


def resumed(cases: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{case}@2" for case in cases)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two processes first: the others go on from their checkpoints."""
    cases = (*CASES, *resumed(CASES), *BF16, *WIDE)
    return trained(tmp_path_factory.mktemp(KIND), *((KIND, processes, cases) for processes in (2, 1)))


@pytest.fixture(scope="module")
def of_tables(tmp_path_factory):
    cases = (*TABLES, *resumed(TABLES))
    return trained(tmp_path_factory.mktemp(KIND), *((KIND, processes, cases) for processes in (2, 1)))


def equal_to_one(runs, cases):
    for case in cases:
        assert_equal(runs[2][case], runs[1][case.removeprefix("fsdp-")])
        assert len(set(runs[1][case]["losses"])) == program.STEPS  # nothing stands still
        assert runs[2][case]["pieces"] == (1.0 if case.startswith("fsdp-") else 0.0)


def goes_on(runs, cases, processes):
    for case in cases:
        whole, resumed = runs[2][case], runs[processes][f"{case}@2"]
        assert resumed["first"] == program.SAVED_AT
        assert_equal(resumed, whole)
        if processes == 2:
            assert resumed["losses"] == whole["losses"][program.SAVED_AT :]  # to the last bit


@pytest.mark.slow  # starts three processes
def test_two_processes_equal_one(runs):
    equal_to_one(runs, CASES)


@with_tables
@pytest.mark.slow
def test_two_processes_equal_one_with_tables_over_them(of_tables):
    equal_to_one(of_tables, TABLES)


@pytest.mark.slow
@pytest.mark.skipif(not BF16, reason="needs two GPUs")
@pytest.mark.parametrize("case", BF16)
def test_two_processes_equal_one_in_bfloat16(runs, case):
    """Products keep 8 bits, and sums of 20 steps come in another order: 2 %, of the first loss 0.2 %, as on NPUs."""
    got, wide = runs[2][case], runs[1][WIDE[0]]
    for expected in (runs[1][case], wide):
        assert got["losses"][0] == pytest.approx(expected["losses"][0], rel=2e-3)
        assert got["losses"] == pytest.approx(expected["losses"], rel=0.02)
        assert got["metrics"] == pytest.approx(expected["metrics"], abs=0.05)
    assert got["losses"] != pytest.approx(wide["losses"], rel=1e-5)  # it was not float32


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_checkpoint_of_two_processes_goes_on(runs, processes):
    goes_on(runs, CASES, processes)


@with_tables
@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_checkpoint_of_tables_over_two_processes_goes_on(of_tables, processes):
    goes_on(of_tables, TABLES, processes)


@pytest.mark.slow
def test_a_gpu_gives_what_the_cpu_gives(runs, tmp_path):
    """Float32 from the same numbers: equal to the order of the sums, at first; 20 steps let it grow."""
    on_cpu = trained(tmp_path, ("cpu", 1, ("static", "ranking")))[1]
    for case, record in on_cpu.items():
        assert runs[1][case]["losses"][:5] == pytest.approx(record["losses"][:5], rel=1e-5)
        assert runs[1][case]["losses"] == pytest.approx(record["losses"], rel=1e-3)
    (tmp_path / "losses.json").write_text(json.dumps({"cpu": on_cpu, KIND: runs[1]}))
