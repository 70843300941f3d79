"""The charts of a page: every label is inside the picture, and numbers are such as people read."""

from __future__ import annotations

import re

from gr_model.report import figures
from gr_model.report import pages as report
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


def test_a_metric_without_a_baseline_is_shown_without_one(tmp_path) -> None:
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
