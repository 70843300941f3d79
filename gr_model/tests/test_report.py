"""The charts of a page: every label is inside the picture, and numbers are such as people read."""

from __future__ import annotations

import json
import os
import re

from gr_model.report import counts, figures
from gr_model.report import pages as report
from gr_model.report.counts import Counts
from gr_model.report.pages import Series

TEXT = re.compile(r'<text x="([\d.]+)" y="([\d.]+)" [^>]*text-anchor="start">([^<]*)</text>')
PHASES = ("distribution", "data", "batch", "forward", "backward", "optimizer")


def test_no_label_of_a_legend_is_cut_off_or_covered() -> None:
    """A run with the sparse pipeline has six phases, which do not fit into one row."""
    svg = report.chart("Seconds by phase", [Series(name, [(1, 0.25), (2, 0.012345)]) for name in PHASES])
    width, height = map(int, re.search(r'viewBox="0 0 (\d+) (\d+)"', svg).groups())
    found = [(float(x), float(y), text) for x, y, text in TEXT.findall(svg)]
    assert [text for *_, text in found] == [f"{name} 0.01235" for name in PHASES]
    assert all(x + 7 * len(text) <= width and y < height for x, y, text in found)
    assert len({y for _, y, _ in found}) > 1
    for x, y, text in found:
        beside = [other for other, row, _ in found if row == y and other > x]
        assert all(x + 7 * len(text) < other for other in beside)
    (step_y,) = (float(y) for y in re.findall(r'y="([\d.]+)" [^>]*>step<', svg))
    assert all(y - step_y >= 12 for _, y, _ in found)


def test_large_numbers_are_written_out() -> None:
    svg = report.chart("Tokens per second", [Series("tokens/s", [(1, 20_000.0), (2, 80_361.7)])])
    assert "tokens/s 80,362<" in svg and ">60,000<" in svg and "e+" not in svg


def test_a_metric_without_a_baseline_is_shown_without_one(tmp_path, drawn) -> None:
    start = {
        "event": "start",
        "config": {"task": "ranking", "dataset": "d", "model": {"backbone": "hstu"}},
        "baseline": {"name": "means", "metrics": {"auc/a": 0.5}},
        "protocol": "p",
        "device": "cpu",
        "torch": "2",
    }
    metrics = {"auc/a": 0.75, "loss/a": 0.125}
    events = [start, {"event": "evaluation", "step": 3, "metrics": metrics}]
    page = report.training_page(events)
    assert '<td>auc/a</td><td class="n">0.7500</td><td class="n">0.5000</td><td class="n">1.50</td>' in page
    assert '<td>loss/a</td><td class="n">0.1250</td><td class="n"></td><td class="n"></td>' in page
    assert report.baseline_series(start["baseline"], "loss/a", [(3, 0.125)], 0).points == []
    figures.write(events, tmp_path)


def counted(launches: int, waits: int, back: int) -> Counts:
    """A line of TWIN_COUNTS, by docs/twin.md."""
    copies = [{"way": "device_to_host", "pinned": False, "blocking": True, "count": 1, "bytes": back}] if back else []
    return Counts(
        {
            "launches": {"custom": {"HstuDenseForward": 2}, "aclnn": {}, "aten": {"aten::mm": launches}, "hccl": {}},
            "waits": {"stream": {"aclrtSynchronizeStream": waits} if waits else {}, "copy": {}},
            "copies": copies,
            "places": [{"call": "aclrtSynchronizeStream", "at": "a<b>.py:7", "count": waits}] if waits else [],
            "memory": [{"device": 0, "bytes": 1, "peak_bytes": launches << 20}],
            "kernels": {"HstuDenseForward": {"launches": 2, "bytes_read": 1000, "bytes_written": 24, "products": 5}},
        }
    )


def test_counts_are_medians_without_the_first_step() -> None:
    steps = [counted(900, 9, 99), counted(3, 0, 0), counted(4, 0, 0), counted(5, 1, 40)]
    summary = json.loads(json.dumps(counts.summary(steps)))
    assert dict(summary["figures"]) == {
        "launches": "6 (at most 7)",
        "launches of our operators": "2",
        "aclnn functions": "0",
        "ATen operators": "4 (at most 5)",
        "collectives": "0",
        "waits of the host": "0 (at most 1)",
        "bytes copied to the device": "0",
        "bytes copied to the host": "0 (at most 40)",
        "peak of device memory, MiB": "900.0",
        "HstuDenseForward: bytes of global memory": "1,024",
        "HstuDenseForward: products": "5",
    }
    assert summary["places"] == [["aclrtSynchronizeStream", "a<b>.py:7", 1]]
    section = report.counts_section(summary)
    assert "<td>aclrtSynchronizeStream</td><td>a&lt;b&gt;.py:7</td>" in section


def test_counts_are_those_of_this_process_and_of_whole_lines(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TWIN_COUNTS", str(tmp_path / "%r-%p%%.jsonl"))
    monkeypatch.setenv("RANK", "3")
    assert counts.of_this_process() == []
    mine = os.getpid()
    former = {"schema": 1, "kind": "step", "pid": mine, "index": 0, "name": "of a process of the same id, in this file"}
    lines = [former, {**former, "index": 1}, {**former, "pid": mine + 1}, {**former, "name": "step 1"}]
    lines += [{**former, "index": 1, "name": "step 2"}, {"schema": 1, "kind": "total", "pid": mine}]
    text = "".join(json.dumps(line) + "\n" for line in lines) + '{"schema": 1, "ki'
    (tmp_path / f"3-{os.getpid()}%.jsonl").write_text(text)
    assert counts.of_this_process() == [Counts(lines[3]), Counts(lines[4])]
    monkeypatch.delenv("TWIN_COUNTS")
    assert counts.of_this_process() == []
