"""Profilers and logs: traces that a trace viewer opens, with the operators in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Scenario

pytestmark = pytest.mark.twin

MODEL = """
import torch, torch_npu
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.SiLU(), torch.nn.Linear(16, 1)).to("npu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.randn(32, 8).to("npu")
def step():
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
step()
"""
OPERATORS = ("aten::linear", "aten::silu", "aten::silu_backward", "aten::mean")


def events(path: Path) -> list[dict[str, Any]]:
    """The events of a trace in the Trace Event Format, checked as a viewer reads them."""
    loaded = json.loads(path.read_text())
    found: list[dict[str, Any]] = loaded["traceEvents"] if isinstance(loaded, dict) else loaded
    for event in found:
        assert event["ph"] in "XBEiIMsftbneC", event
        if event["ph"] == "X":
            assert float(event["ts"]) > 0 and float(event["dur"]) >= 0, event
            assert "pid" in event and "tid" in event and event["name"], event
    return found


def spans(found: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in found if event["ph"] == "X" and event["name"] == name]


@pytest.mark.parametrize("aten", ["override", "aclnn"])
def test_trace_of_the_npu_profiler(scenario: Scenario, tmp_path: Path, aten: str) -> None:
    trace = tmp_path / "trace.json"
    scenario(
        f"""{MODEL}
with torch_npu.profiler.profile(record_shapes=True) as profiler:
    for _ in range(3):
        step()
        torch.npu.synchronize()
profiler.export_chrome_trace({str(trace)!r})
""",
        TWIN_ATEN=aten,
    )
    found = events(trace)
    for name in OPERATORS:
        assert len(spans(found, name)) >= 3, name
    assert len(spans(found, "aten::linear")) == 6  # two layers, three steps
    backward = spans(found, "aten::silu_backward")[0]
    forward = spans(found, "aten::silu")[0]
    assert float(backward["ts"]) > float(forward["ts"])


def test_trace_handler_and_schedule(scenario: Scenario, tmp_path: Path) -> None:
    """The usual way: a schedule, and a folder for the viewer of the vendor."""
    scenario(f"""{MODEL}
from torch_npu import profiler
handler = profiler.tensorboard_trace_handler({str(tmp_path)!r})
plan = profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
with profiler.profile(schedule=plan, on_trace_ready=handler, profile_memory=True) as running:
    for _ in range(5):
        step()
        running.step()
""")
    (trace,) = tmp_path.rglob("trace_view.json")
    found = events(trace)
    assert len(spans(found, "aten::linear")) == 4  # two active steps
    assert {e["name"] for e in found if str(e["name"]).startswith("ProfilerStep")} == {
        "ProfilerStep#2",
        "ProfilerStep#3",
    }
    (operators,) = tmp_path.rglob("operator_details.csv")
    assert "aten::silu" in operators.read_text()
    (memory,) = tmp_path.rglob("operator_memory.csv")
    assert "aten::" in memory.read_text()


def test_a_profile_has_no_device_figures(scenario: Scenario, tmp_path: Path) -> None:
    """No kernel times are invented: where hardware would report them there is nothing."""
    done = scenario(
        f"""{MODEL}
with torch_npu.profiler.profile(on_trace_ready=torch_npu.profiler.tensorboard_trace_handler({str(tmp_path)!r})):
    step()
""",
        TWIN_LOG="info",
    )
    assert "no counter of a device is emulated" in done.stderr
    assert list(tmp_path.rglob("trace_view.json"))
    assert not list(tmp_path.rglob("kernel_details.csv")) and not list(tmp_path.rglob("PROF_*"))


def test_a_second_profile_starts_after_the_first(scenario: Scenario, tmp_path: Path) -> None:
    scenario(f"""{MODEL}
for number in range(2):
    with torch_npu.profiler.profile() as profiler:
        step()
    profiler.export_chrome_trace({str(tmp_path)!r} + f"/trace{{number}}.json")
""")
    for number in range(2):
        assert spans(events(tmp_path / f"trace{number}.json"), "aten::linear")


def test_trace_of_the_stock_profiler(scenario: Scenario, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    done = scenario(f"""{MODEL}
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
    with torch.profiler.record_function("one step"):
        step()
profiler.export_chrome_trace({str(trace)!r})
print(profiler.key_averages().table(row_limit=100))
""")
    found = events(trace)
    for name in (*OPERATORS, "one step"):
        assert spans(found, name), name
    assert "aten::silu_backward" in done.stdout


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
