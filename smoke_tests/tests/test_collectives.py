"""The check of collectives on machines with fewer devices than ranks, and with a rank that fails."""

import subprocess
import sys
import time

import pytest
import torch

from smoke_tests.check import CheckSkipped
from smoke_tests.checks import collectives


@pytest.mark.parametrize("there", [0, 1])
def test_with_fewer_than_two_npus_it_is_skipped(monkeypatch, there):
    monkeypatch.setattr(torch.npu, "device_count", lambda: there)
    with pytest.raises(CheckSkipped, match=f"2 NPUs are needed, {there} given: inv smoke-test --devices 0,1"):
        collectives.kind_of_ranks("npu")
    assert collectives.kind_of_ranks("cpu") == "cpu"


def test_with_two_it_is_not(monkeypatch):
    monkeypatch.setattr(torch.npu, "device_count", lambda: 2)
    assert collectives.kind_of_ranks("npu") == "npu"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert collectives.kind_of_ranks("cuda") == "cpu"


def test_when_a_rank_fails_the_other_ends():
    """Whichever it is: the first is waited for first."""
    waits, fails = "import time; time.sleep(600)", "raise SystemExit(3)"
    for programs, codes in (((waits, fails), [-9, 3]), ((fails, waits), [3, -9])):
        begun = time.monotonic()
        running = [subprocess.Popen([sys.executable, "-c", program]) for program in programs]
        assert collectives.ended(running, seconds=300, patience=0.2) == codes
        assert time.monotonic() - begun < 60


def test_ranks_that_hang_end_by_the_limit():
    running = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) for _ in range(2)]
    assert collectives.ended(running, seconds=0.2, patience=0.2) == [-9, -9]
