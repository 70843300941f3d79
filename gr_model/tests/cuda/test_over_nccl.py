"""Two processes against one: over nccl where there is a GPU for each, over gloo elsewhere (test_distributed.py has
more cases there, and those of torchrec's tables)."""

import json

import pytest
import torch

from gr_model.tests import distributed_program as program
from gr_model.tests.test_distributed import assert_equal, trained

KIND = "cuda" if torch.cuda.device_count() >= 2 else "cpu"
CASES = ("static", "ranking", "fused", *(("fsdp-static",) if KIND == "cuda" else ()))
RESUMED = tuple(f"{case}@2" for case in CASES)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two processes first: the others go on from their checkpoints."""
    folder = tmp_path_factory.mktemp(KIND)
    return trained(folder, *((KIND, processes, (*CASES, *RESUMED)) for processes in (2, 1)))


@pytest.mark.slow  # starts three processes
def test_two_processes_equal_one(runs):
    for case in CASES:
        assert_equal(runs[2][case], runs[1][case])
        assert len(set(runs[1][case]["losses"])) == program.STEPS  # nothing stands still
    if "fsdp-static" in CASES:
        assert_equal(runs[2]["fsdp-static"], runs[1]["static"])


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_checkpoint_of_two_processes_goes_on(runs, processes):
    for case in CASES:
        whole, resumed = runs[2][case], runs[processes][f"{case}@2"]
        assert resumed["first"] == program.SAVED_AT
        assert_equal(resumed, whole)
        if processes == 2:
            assert resumed["losses"] == whole["losses"][program.SAVED_AT :]  # to the last bit


@pytest.mark.slow
def test_a_gpu_gives_what_the_cpu_gives(runs, tmp_path):
    """Float32 from the same numbers: equal to the order of the sums, at first; 20 steps let it grow."""
    on_cpu = trained(tmp_path, ("cpu", 1, ("static", "ranking")))[1]
    for case, record in on_cpu.items():
        assert runs[1][case]["losses"][:5] == pytest.approx(record["losses"][:5], rel=1e-5)
        assert runs[1][case]["losses"] == pytest.approx(record["losses"], rel=1e-3)
    (tmp_path / "losses.json").write_text(json.dumps({"cpu": on_cpu, KIND: runs[1]}))
