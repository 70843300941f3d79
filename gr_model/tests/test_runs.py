"""The list of runs: made by the trainer itself, then read without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gr_model import runs
from gr_model.run import lock

SETTINGS = ["dataset=planted-sequences", "synthetic.users=40", "train.eval_every=2", "train.checkpoint_every=2"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: one of 4 steps that is done, and one that its time limit ended."""
    place = tmp_path_factory.mktemp("runs")
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}  # torch_npu is most of a start's time
    for name, more in (("a", ["train.steps=4"]), ("b", ["train.steps=4000", "train.time_limit=1", "train.lr=0.5"])):
        argv = ["-m", "gr_model.train", "--config", "smoke", "--out", str(place / name), *SETTINGS, *more]
        subprocess.run([sys.executable, *argv], check=True, capture_output=True, env=env)
    (place / "latest").symlink_to("a")
    (place / "other").mkdir()
    return place


def test_runs_are_found_with_their_state(made: Path) -> None:
    first, second = (runs.read(place) for place in runs.find([made]))
    assert (first.state, first.step, first.steps, first.checkpoint) == ("done", 4, 4, "step-00000004")
    assert first.config == "smoke" and first.loss is not None and 0 <= first.metrics["hr@10"] <= 1
    assert second.state == "stopped" and 0 < second.step < 4000
    assert second.settings["train.lr"] == 0.5 and "train.lr" not in first.settings
    assert first.settings["dataset"] == "planted-sequences" and "model.dim" not in first.settings
    assert list(runs.find([made / "b"])) == [made / "b"]


def test_a_run_that_is_written_says_so(made: Path) -> None:
    program = f"from pathlib import Path; from gr_model import runs; print(runs.read(Path({str(made / 'a')!r})).state)"
    with lock.locked(made / "a"):
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "running\n", ran.stderr
    assert runs.read(made / "a").state == "done"


def test_the_best_come_first(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs.main([str(made), "--by", "ndcg@10", "--json"]) == 0
    scores = [run["metrics"].get("ndcg@10", -1) for run in json.loads(capsys.readouterr().out)]
    assert scores == sorted(scores, reverse=True) and len(scores) == 2
    assert runs.main([str(made)]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:5] == ["run", "config", "state", "step", "loss"] and len(lines) == 2
    assert any("4/4" in line and "done" in line for line in lines)


def test_what_is_missing_is_told(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs.main([str(tmp_path)]) == 1
    assert "no run in" in capsys.readouterr().err
    assert runs.main([str(made), "--by", "auc"]) == 1
    assert "no run has the metric 'auc'" in capsys.readouterr().err


def test_it_needs_no_torch() -> None:
    program = "import sys; sys.modules['torch'] = None; import gr_model.runs; from gr_model.config import presets"
    subprocess.run([sys.executable, "-c", program], check=True)
