"""TWIN_COUNTS: what small programs launch, wait for, copy and hold, to the last one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import HERE, TIMEOUT, Scenario

pytestmark = pytest.mark.twin

SYNC, SYNC_LIMIT, SYNC_ALL = (
    "aclrtSynchronizeStream",
    "aclrtSynchronizeStreamWithTimeout",
    "aclrtSynchronizeDeviceWithTimeout",
)
TO_DEVICE, TO_HOST, BETWEEN = "host_to_device", "device_to_host", "device_to_device"
MIB = 1 << 20

# Of each step: waits by kind and call; copies as (way, pinned, blocking, count, bytes). torch_npu waits for the stream
# before a copy that blocks, and reads a value with one.
NOTHING: dict[str, dict[str, int]] = {}
BLOCKING = {"stream": {SYNC: 1}, "copy": {"aclrtMemcpy": 1}}
VALUE = {"stream": {SYNC_LIMIT: 1}, "copy": {"aclrtMemcpy": 1}}
EXPECTED: dict[str, tuple[dict[str, dict[str, int]], list[tuple[str, bool, bool, int, int]]]] = {
    "to": (BLOCKING, [(TO_DEVICE, False, True, 1, 4 * 64 * 64)]),
    "matmul": (NOTHING, []),
    "item": (VALUE, [(TO_HOST, False, True, 1, 4)]),
    "to host": (BLOCKING, [(TO_HOST, False, True, 1, 4 * 64 * 64)]),
    "pinned": (NOTHING, [(TO_DEVICE, True, False, 1, 4 * 1024)]),
    "pinned, waiting": (BLOCKING, [(TO_DEVICE, True, True, 1, 4 * 1024)]),
    "pinned back": (NOTHING, [(TO_HOST, True, False, 1, 4 * 1024)]),
    "between devices": ({"stream": {SYNC_LIMIT: 2}}, [(BETWEEN, False, False, 1, 4 * 64 * 64)]),
    "synchronise": ({"device": {SYNC_ALL: 1}}, []),
    "tolist": (BLOCKING, [(TO_HOST, False, True, 1, 12)]),
    "view": (NOTHING, []),
    "streams": ({"stream": {SYNC_LIMIT: 1}, "event": {"aclrtSynchronizeEvent": 1}}, []),
    "marked 1": (NOTHING, []),
    "marked 2": (NOTHING, []),
    "sum of both": (NOTHING, []),
}
# aclnn functions that torch_npu calls, or operators that the override runs, and what the host waits for besides.
LAUNCHED: dict[str, dict[str, dict[str, int]]] = {
    "aclnn": {
        "matmul": {"aclnnMatmul": 1},
        "item": {"aclnnReduceSum": 1},
        "nonzero": {"aclnnNonzero": 1},
        "mask": {"aclnnGtScalar": 1, "aclnnIndex": 1, "aclnnNonzeroV2": 1},
        "streams": {"aclnnAdds": 1},
        "marked 1": {"aclnnAdd": 1},
        "marked 2": {"aclnnMul": 1},
        "sum of both": {"aclnnAdd": 2},
    },
    "override": {
        "matmul": {"aten::mm": 1},
        "item": {"aten::sum": 1},
        "nonzero": {"aten::nonzero": 1},
        "mask": {"aten::gt.Scalar": 1, "aten::index.Tensor": 1},
        "streams": {"aten::add.Tensor": 1},
        "marked 1": {"aten::add.Tensor": 1},
        "marked 2": {"aten::mul.Tensor": 1},
        "sum of both": {"aten::add.Tensor": 2},
    },
}
SIZED = {
    "aclnn": {"nonzero": {"stream": {SYNC_LIMIT: 1}}, "mask": {"stream": {SYNC_LIMIT: 1}}},
    "override": {"nonzero": {"value": {"aten::nonzero": 1}}, "mask": {"value": {"aten::index.Tensor": 1}}},
}


def lines(path: Path) -> list[dict[str, Any]]:
    """Every line is whole, and newline-ended."""
    text = path.read_text()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def waits(line: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {kind: calls for kind, calls in line["waits"].items() if calls}


def copies(line: dict[str, Any]) -> list[tuple[str, bool, bool, int, int]]:
    return [(row["way"], row["pinned"], row["blocking"], row["count"], row["bytes"]) for row in line["copies"]]


@pytest.fixture(scope="module", params=[("aclnn", "0"), ("override", "1")], ids="-".join)
def counted(request, module_scenario: Scenario, tmp_path_factory) -> tuple[str, str, list[dict[str, Any]]]:
    mode, queue = request.param
    path = tmp_path_factory.mktemp("counts") / "counts.jsonl"
    module_scenario("import counted; counted.main()", TWIN_COUNTS=str(path), TWIN_ATEN=mode, TASK_QUEUE_ENABLE=queue)
    return mode, queue, lines(path)


def steps(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {line["name"].removeprefix("step "): line for line in found if line["kind"] == "step"}


def test_waits_and_copies_of_each_step(counted) -> None:
    mode, _, found = counted
    by_name = steps(found)
    for name, (expected, copied) in EXPECTED.items():
        assert (waits(by_name[name]), copies(by_name[name])) == (expected, copied), name
    for name, expected in SIZED[mode].items():
        assert (waits(by_name[name]), copies(by_name[name])) == (expected, []), name


def test_launches_of_each_step(counted) -> None:
    mode, _, found = counted
    kind, other = ("aclnn", "aten") if mode == "aclnn" else ("aten", "aclnn")
    for name in (*EXPECTED, *SIZED[mode]):
        launches = steps(found)[name]["launches"]
        assert launches[kind] == LAUNCHED[mode].get(name, {}), name
        assert launches[other] == launches["custom"] == launches["hccl"] == {}, name


def test_the_total_is_that_of_the_steps_and_what_is_between_them(counted) -> None:
    _, _, found = counted
    (total,) = [line for line in found if line["kind"] == "total"]
    of_steps = [line for line in found if line["kind"] == "step"]
    assert total is found[-1] and total["steps"] == len(of_steps)
    assert [line["index"] for line in of_steps] == list(range(len(of_steps)))
    back = [row for line in of_steps for row in line["copies"] if row["way"] == TO_HOST]
    assert sum(row["bytes"] for row in total["copies"] if row["way"] == TO_HOST) == sum(row["bytes"] for row in back)
    added = sum(
        sum(count for name, count in line["launches"]["aclnn"].items() if name == "aclnnAdd") for line in of_steps
    )
    added += sum(line["launches"]["aten"].get("aten::add.Tensor", 0) for line in of_steps)
    launched = total["launches"]["aclnn"].get("aclnnAdd", 0) + total["launches"]["aten"].get("aten::add.Tensor", 0)
    assert launched == added + 1  # of the step that nothing ended


def test_the_place_is_the_programs_own_line(counted) -> None:
    _, queue, found = counted
    source = (HERE / "counted.py").read_text().splitlines()
    for name, text in (("item", ".item()"), ("to host", ".cpu()"), ("tolist", ".tolist()"), ("nonzero", ".nonzero()")):
        for row in steps(found)[name]["places"]:
            file, _, line = row["at"].rpartition(":")
            assert file == str(HERE / "counted.py") and text in source[int(line) - 1], row
    if queue == "0":  # else torch_npu's own thread asks for the copy
        (row,) = steps(found)["pinned back"]["places"]
        assert row["call"] == "aclrtMemcpyAsync" and "back.copy_" in source[int(row["at"].rpartition(":")[2]) - 1]


def test_memory_now_and_at_its_peak(counted) -> None:
    _, _, found = counted
    before, during = steps(found)["streams"], steps(found)["memory"]
    row = during["memory"][0]
    assert row["device"] == 0 and row["peak_bytes"] - row["bytes"] == 66 * MIB  # torch_npu pads 64 MiB
    assert row["bytes"] <= before["memory"][0]["bytes"]
    after = steps(found)["sum of both"]["memory"][0]
    assert after["peak_bytes"] < 64 * MIB, "the peak is the step's own"
    assert found[-1]["memory"][0]["peak_bytes"] == row["peak_bytes"]


def test_a_file_that_cannot_be_written_is_told_at_once(scenario: Scenario, tmp_path: Path) -> None:
    path = tmp_path / "none" / "counts"
    done = scenario("import torch; torch.ones(1).npu()", code=1, TWIN_COUNTS=str(path))
    assert f"cannot write {path}: No such file or directory" in done.stderr


LOOP = """
import sys; sys.path.insert(0, {here!r})
import counted, torch
x = torch.ones(8).npu()
for i in range(10**9):
    with counted.step(str(i)):
        x + 1
"""


Start = Callable[[str, str], subprocess.Popen[str]]


@pytest.fixture
def start(lib64: Path) -> Iterator[Start]:
    """Starts the loop of a rank, counts into a file; none is left at the end."""
    with contextlib.ExitStack() as left:

        def begin(path: str, rank: str) -> subprocess.Popen[str]:
            env = {**os.environ, "LD_LIBRARY_PATH": str(lib64), "OMP_NUM_THREADS": "1"}
            env |= {"TWIN_COUNTS": path, "RANK": rank}
            env.pop("TWIN_ATEN", None)
            argv = [sys.executable, "-c", LOOP.format(here=str(HERE))]
            process = left.enter_context(subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True))
            left.callback(process.kill)
            return process

        yield begin


def test_processes_share_a_file_and_ctrl_c_leaves_it_whole(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "shared.jsonl"
    running = [start(str(path), rank) for rank in ("0", "1")]
    deadline = time.monotonic() + TIMEOUT

    def enough() -> bool:
        whole = [line for line in path.read_text().splitlines(True) if line.endswith("\n")] if path.exists() else []
        ranks = [json.loads(line)["rank"] for line in whole]
        return ranks.count("0") > 50 and ranks.count("1") > 50

    while not enough() and time.monotonic() < deadline and all(process.poll() is None for process in running):
        time.sleep(0.1)
    for process in running:
        process.send_signal(signal.SIGINT)
    for process in running:
        _, said = process.communicate(timeout=TIMEOUT)
        assert "KeyboardInterrupt" in said
    found = lines(path)
    assert {line["pid"] for line in found} == {process.pid for process in running}
    for process in running:
        mine = [line for line in found if line["pid"] == process.pid]
        names = [line["name"] for line in mine if line["kind"] == "step"]
        assert names == [f"step {i}" for i in range(len(names))] and len(names) > 50
        (total,) = [line for line in mine if line["kind"] == "total"]
        assert total is mine[-1] and total["steps"] == len(names)


def test_a_killed_process_leaves_whole_lines_in_a_file_of_its_rank(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "3-%.jsonl"
    process = start(str(tmp_path / "%r-%%.jsonl"), "3")
    deadline = time.monotonic() + TIMEOUT
    while (not path.exists() or path.stat().st_size < 50_000) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.communicate(timeout=TIMEOUT)
    assert {line["kind"] for line in lines(path)} == {"step"}
