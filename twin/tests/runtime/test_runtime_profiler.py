"""Profilers and logs: traces that a trace viewer opens, with the operators in them."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from conftest import HERE, Scenario

pytestmark = pytest.mark.twin

# One process records all of it: importing torch_npu takes longer than the rest.
RECORD = """
import torch, torch_npu
from torch_npu import profiler
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.SiLU(), torch.nn.Linear(16, 1)).to("npu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.randn(32, 8).to("npu")
def step():
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
step()

host = {"activities": [profiler.ProfilerActivity.CPU]}
with profiler.profile(record_shapes=True, **host) as running:
    for _ in range(3):
        step()
running.export_chrome_trace("npu.json")

with profiler.profile(**host) as running:
    with torch.profiler.record_function("again"):
        step()
running.export_chrome_trace("again.json")

handler, plan = profiler.tensorboard_trace_handler("view"), profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
with profiler.profile(schedule=plan, on_trace_ready=handler, profile_memory=True) as running:
    for _ in range(5):
        step()
        running.step()

with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as running:
    with torch.profiler.record_function("one step"):
        step()
running.export_chrome_trace("stock.json")
print(running.key_averages().table(row_limit=100))
"""
OPERATORS = ("aten::linear", "aten::silu", "aten::silu_backward", "aten::mean")


@pytest.fixture(scope="module")
def recorded(module_scenario: Scenario, lib64: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The folder with the traces; what was printed; what was logged."""
    folder = tmp_path_factory.mktemp("profiles")
    installed, source = lib64.parent / "tools/profiler/bin", HERE.parents[1] / "tools/profiler/bin"
    path = os.pathsep.join([str(installed if installed.is_dir() else source), os.environ["PATH"]])
    done = module_scenario(f"import os; os.chdir({str(folder)!r})\n{RECORD}", TWIN_LOG="info", PATH=path)
    return folder, done.stdout, done.stderr


def events(path: Path) -> list[dict[str, Any]]:
    """The events of a trace in the Trace Event Format, checked as a viewer reads them."""
    loaded = json.loads(path.read_text())
    found: list[dict[str, Any]] = loaded["traceEvents"] if isinstance(loaded, dict) else loaded
    for event in found:
        assert event["ph"] in "XBEiIMsftbneC", event
        if event["ph"] == "X":
            assert Decimal(event["ts"]) > 0 and Decimal(event["dur"]) >= 0, event
            assert "pid" in event and "tid" in event and event["name"], event
    return found


def spans(found: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in found if event["ph"] == "X" and event["name"] == name]


def times(event: dict[str, Any]) -> tuple[Decimal, Decimal]:
    """Begin and end in microseconds, with the nanoseconds that a float would lose."""
    begin = Decimal(str(event["ts"]))
    return begin, begin + Decimal(str(event["dur"]))


def parents(found: list[dict[str, Any]]) -> Iterator[tuple[str, set[str]]]:
    """Each operator with the names of those that it lies within; on a thread no two may overlap by a part."""
    threads: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for event in found:
        if event["ph"] == "X" and event.get("cat") == "cpu_op":
            threads[event["pid"], event["tid"]].append(event)
    for of in threads.values():
        open_: list[dict[str, Any]] = []
        for event in sorted(of, key=lambda e: (times(e)[0], -times(e)[1])):
            begin, end = times(event)
            while open_ and times(open_[-1])[1] <= begin:
                open_.pop()
            assert not open_ or end <= times(open_[-1])[1] + TICK, (open_[-1], event)
            yield event["name"], {e["name"] for e in open_}
            open_.append(event)


TICK = Decimal("0.002")  # begin and duration are rounded on their own


def test_trace_of_the_npu_profiler(recorded: tuple[Path, str, str]) -> None:
    found = events(recorded[0] / "npu.json")
    for name in OPERATORS:
        assert len(spans(found, name)) >= 3, name
    assert len(spans(found, "aten::linear")) == 6  # two layers, three steps
    backward, forward = spans(found, "aten::silu_backward")[0], spans(found, "aten::silu")[0]
    assert times(backward)[0] > times(forward)[1]
    assert any("32,8" in str(event["args"]).replace(" ", "") for event in spans(found, "aten::linear"))


@pytest.mark.parametrize("name", ["npu.json", "stock.json"])
def test_operators_nest(recorded: tuple[Path, str, str], name: str) -> None:
    found = list(parents(events(recorded[0] / name)))
    assert len(found) > 20
    inner = [within for operator, within in found if operator == "aten::t"]
    assert any("aten::linear" in within for within in inner)


def test_a_second_profile_starts_after_the_first(recorded: tuple[Path, str, str]) -> None:
    found = events(recorded[0] / "again.json")
    assert len(spans(found, "aten::linear")) == 2
    assert len(spans(found, "again")) == 1


def test_trace_handler_and_schedule(recorded: tuple[Path, str, str]) -> None:
    """The usual way: a schedule, and a folder for the viewer of the vendor."""
    (trace,) = (recorded[0] / "view").rglob("trace_view.json")
    found = events(trace)
    assert len(spans(found, "aten::linear")) == 4  # two active steps
    steps = {e["name"] for e in found if str(e["name"]).startswith("ProfilerStep")}
    assert steps == {"ProfilerStep#2", "ProfilerStep#3"}
    (operators,) = (recorded[0] / "view").rglob("operator_details.csv")
    assert "aten::silu" in operators.read_text()
    (memory,) = (recorded[0] / "view").rglob("operator_memory.csv")
    assert "aten::" in memory.read_text()


def test_trace_of_the_stock_profiler(recorded: tuple[Path, str, str]) -> None:
    found = events(recorded[0] / "stock.json")
    for name in (*OPERATORS, "one step"):
        assert spans(found, name), name
    assert "aten::silu_backward" in recorded[1]


def test_a_profile_has_no_device_figures(recorded: tuple[Path, str, str]) -> None:
    """No kernel times are invented: where hardware would report them there is nothing."""
    folder, _, logged = recorded
    assert "no counter of a device is emulated" in logged
    (trace,) = (folder / "view").rglob("trace_view.json")
    found = events(trace)
    (device,) = [event["pid"] for event in found if "emulated NPU" in str(event.get("args"))]
    assert [event for event in found if event["pid"] == device and event["ph"] != "M"] == []
    assert not list(folder.rglob("kernel_details.csv"))


@pytest.mark.parametrize(
    ("level", "shown", "hidden"),
    [("0", ("[twin DEBUG ", "[twin INFO "), ()), ("1", ("[twin INFO ",), ("[twin DEBUG ",)), ("3", (), ("[twin ",))],
)
def test_log_level(scenario: Scenario, level: str, shown: tuple[str, ...], hidden: tuple[str, ...]) -> None:
    done = scenario("import torch, torch_npu; torch.ones(3).npu().sum().item()", ASCEND_GLOBAL_LOG_LEVEL=level)
    for text in shown:
        assert text in done.stderr
    for text in hidden:
        assert text not in done.stderr
    if level == "1":
        assert "emulated NPU: 2 devices that answer as Ascend910B2" in done.stderr


def test_a_second_profiler_is_refused_and_leaves_no_folder(scenario: Scenario, tmp_path: Path) -> None:
    scenario(f"""
        from acl import *
        first, second, nowhere = (b"{tmp_path}/" + name for name in (b"first", b"second", b"first/file/below"))
        call("aclprofInit", first, ctypes.c_size_t(len(first)))
        text = refused(500005, "aclprofInit", second, ctypes.c_size_t(len(second)))
        assert "a profiler is in use; finalize it first" in text
        call("aclprofFinalize")
        open(first + b"/file", "w").close()
        text = refused(500005, "aclprofInit", nowhere, ctypes.c_size_t(len(nowhere)))
        assert "Not a directory" in text, text
        call("aclprofInit", first, ctypes.c_size_t(len(first)))
    """)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first"]
