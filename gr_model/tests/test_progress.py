"""A bar on a terminal, lines elsewhere; only the first process says anything."""

from __future__ import annotations

import io
import sys

import pytest

from gr_model.report.progress import Progress
from gr_model.runtime.world import World


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def train(show: Progress) -> None:
    show.start_at(5)
    with show:
        for step in (6, 7, 8):
            show.step(step, loss=2.5 - step / 8, seconds=0.5, tokens=1000 * step, tell=step == 7)
        show.say("evaluated")


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It stands at the step of a run that goes on, with loss and tokens a second of the last step."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    train(Progress(World(), steps=8))
    last = terminal.getvalue().replace("\n", "\r").strip("\r").split("\r")[-1]
    assert "8/8" in last and "100%" in last and "loss 1.5000, 16,000 tokens/s" in last
    first = terminal.getvalue().strip("\r").split("\r")[0]
    assert "5/8" in first
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and said.endswith("evaluated\n")  # above the bar


@pytest.mark.parametrize("kind", ["auto", "lines"])
def test_no_terminal_shows_lines(monkeypatch, capsys, kind: str) -> None:
    stream = io.StringIO() if kind == "auto" else Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    train(Progress(World(), steps=8, bar=kind))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and stream.getvalue() == ""
    assert lines[0].endswith("s] step     7/8  loss 1.6250  0.500 s  14,000 tokens/s  about 0 s left")
    assert lines[1].endswith("evaluated")


def test_other_processes_are_silent(monkeypatch, capsys) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    train(Progress(World(rank=1, size=2), steps=8, bar="bar"))
    assert capsys.readouterr().out == "" and terminal.getvalue() == ""
