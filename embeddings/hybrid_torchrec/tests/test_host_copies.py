"""What is copied to an NPU for tables whose slots are found on the host: without waits, and never old values."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from counted_tables import CASES, STEPS
from hybrid_torchrec import HashTable, TableConfig, host_copies

PROGRAM = Path(__file__).with_name("counted_tables.py")


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[float]], list[dict]]:
    """What the program printed, and the lines of its steps."""
    path = tmp_path_factory.mktemp("counts") / "counts.jsonl"
    env = {**os.environ, "TWIN_COUNTS": str(path), "TASK_QUEUE_ENABLE": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(PROGRAM)], env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return json.loads(done.stdout.splitlines()[-1]), [line for line in lines if line["kind"] == "step"]


@pytest.mark.twin
@pytest.mark.emulated
@pytest.mark.parametrize("case", CASES)
def test_a_step_with_ids_on_the_host_waits_for_nothing(counted, case: str) -> None:
    assert len(counted[1]) == STEPS * len(CASES)
    first = STEPS * CASES.index(case)
    for step in counted[1][first : first + STEPS]:
        assert not any(step["waits"].values()), step["places"]
        copies = [row for row in step["copies"] if row["way"] != "device_to_device"]
        assert copies and all(row["way"] == "host_to_device" and row["pinned"] for row in copies), copies
    on_npu, on_cpu = counted[0][case]
    assert on_npu == pytest.approx(on_cpu, rel=1e-5)


def test_the_host_knows_slots_until_they_are_written_to(device: str) -> None:
    table = HashTable(TableConfig(name="t", dim=4), device)
    slots = table.assign(torch.tensor([5, 7, 5]), train=True)
    assert slots.tolist() == host_copies.on_host(slots).tolist() == [1, 2, 1]
    assert (host_copies.source(slots) is None) == (device == "cpu")
    slots.add_(1)
    assert host_copies.source(slots) is None and host_copies.on_host(slots).tolist() == [2, 3, 2]


def test_inference_mode_and_nothing_at_all(device: str) -> None:
    with torch.inference_mode():
        copy = host_copies.known_on_host(torch.arange(3), torch.device(device))
    assert host_copies.on_host(copy).tolist() == [0, 1, 2]
    none = host_copies.known_on_host(torch.empty(0, dtype=torch.int64), torch.device(device))
    assert none.device.type == device.split(":")[0] and host_copies.on_host(none).tolist() == []


def test_changes_are_of_the_rows_that_were_updated(device: str) -> None:
    """Of the second batch alone, also where the gradient comes after another forward pass."""
    table = HashTable(TableConfig(name="t", dim=4), device)
    first, second = (table.assign(torch.tensor(ids), train=True) for ids in ([1, 2, 3], [3, 4]))
    _, _, version = table.changed_since(0)
    table.update(second, torch.ones(2, 4, device=device))
    assert sorted(table.changed_since(version)[0].ids.tolist()) == [3, 4]
    _, _, version = table.changed_since(0)
    table.update(first, torch.ones(3, 4, device=device))
    assert sorted(table.changed_since(version)[0].ids.tolist()) == [1, 2, 3]
