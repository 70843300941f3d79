"""Training on a user's own file, from the command to the run's folder: what is kept, what a changed file does."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from gr_model import train
from gr_model.run import data_note
from gr_model.run import log as runlog
from gr_model.tests import own_files

SMALL = [
    "train.batch=4",
    "train.steps=2",
    "model.dim=4",
    "model.qk_dim=4",
    "model.value_dim=4",
    "model.max_items=16",
    "data.time_unit=ms",
    "train.log_every=1",
]
TABLE = own_files.rows(count=200)


def arguments(path: Path, config: str, *settings: str) -> list[str]:
    places = ["--data-dir", str(path.parent / "data"), "--out", str(path.parent / "run")]
    return ["--config", config, *places, f"data.path={path}", *SMALL, *settings]


def events(path: Path, kind: str) -> list[dict]:
    return [event for event in runlog.read(path.parent / "run/log.jsonl") if event["event"] == kind]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return own_files.write(tmp_path / "mine.csv", TABLE)


def test_retrieval_keeps_the_ids_of_its_items(path: Path, capsys) -> None:
    assert train.main(arguments(path, "own-retrieval")) == 0, capsys.readouterr().err
    first_seen = list(dict.fromkeys(row["item"] for row in TABLE))
    assert data_note.item_ids(path.parent / "run") == first_seen
    note = json.loads((path.parent / "run/data.json").read_text())
    assert (note["name"], note["items"], note["users"]) == ("mine.csv", len(first_seen), 7) and note["content"]
    assert 0 <= events(path, "evaluation")[-1]["metrics"]["hr@10"] <= 1


def test_ranking_learns_labels_with_features(path: Path, capsys) -> None:
    settings = ["data.actions=event", "data.features=country", "model.contextual=country", "ranking.tasks=view,buy"]
    assert train.main(arguments(path, "own-ranking", *settings, "ranking.held_out=3")) == 0, capsys.readouterr().err
    assert {"auc/view", "auc/buy"} <= set(events(path, "evaluation")[-1]["metrics"])


def test_ranking_of_unknown_labels_says_which_there_are(path: Path, capsys) -> None:
    assert train.main(arguments(path, "own-ranking", "data.actions=event")) == 1
    said = capsys.readouterr().err
    assert (
        "ranking.tasks: unknown love, dislike; valid: " in said and "next: the same command with ranking.tasks=" in said
    )


def test_a_run_goes_on_with_the_file_that_it_began_with(path: Path, capsys) -> None:
    assert train.main(arguments(path, "own-retrieval")) == 0
    run, places = str(path.parent / "run"), ["--data-dir", str(path.parent / "data")]
    assert train.main(["--resume", run, *places, "train.steps=3"]) == 0
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"u1,", b"u2,", 1))
    capsys.readouterr()
    assert train.main(["--resume", run, *places, "train.steps=4"]) == 1
    said = capsys.readouterr().err
    assert "mine.csv: holds other rows than when run" in said and "next: put the file back" in said
    path.write_bytes(whole)
    assert train.main(["--resume", run, *places, "train.steps=4"]) == 0
    assert [event["step"] for event in events(path, "step")] == [1, 2, 3, 4]


def test_overwrite_removes_what_was_kept(path: Path) -> None:
    assert train.main(arguments(path, "own-retrieval")) == 0
    assert train.main([*arguments(path, "smoke", "data.at_least=2"), "--overwrite"]) == 0
    assert (path.parent / "run/items.parquet").exists()


def test_a_run_that_ended_before_its_first_step_gives_its_place(path: Path, capsys) -> None:
    """What it kept of its data is no reason to refuse the command that is mended."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert train.main([*arguments(path, "own-retrieval"), "--prometheus", str(taken.getsockname()[1])]) == 1
    assert (path.parent / "run/items.parquet").exists() and "Address already in use" in capsys.readouterr().err
    assert train.main(arguments(path, "own-retrieval", "data.at_least=2")) == 0


def test_a_config_file_names_the_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    monkeypatch.setenv("GRSTACK_RUNS", str(path.parent / "runs"))
    lines = "".join(f"{name}: {value}\n" for name, _, value in (line.partition("=") for line in SMALL))
    (path.parent / "mine.v2.yaml").write_text(f"preset: own-retrieval\ndata:\n  path: mine.csv\n{lines}")
    assert train.main(["--config", "mine.v2.yaml", "--data-dir", "data"]) == 0
    (run,) = [each for each in (path.parent / "runs").iterdir() if not each.is_symlink()]
    assert run.name.endswith("-mine.v2")
    assert json.loads((run / "run-id.json").read_text())["config"]["data"]["path"] == str(path)


@pytest.mark.parametrize(
    ("config", "settings", "needed"),
    [("own-retrieval", [], 3), ("own-ranking", ["data.actions=event", "ranking.tasks=buy"], 11)],
)
def test_too_few_rows_are_told(path: Path, config: str, settings: list[str], needed: int, capsys) -> None:
    own_files.write(path, [{**row, "user": f"u{n // 2}"} for n, row in enumerate(TABLE)])
    assert train.main(arguments(path, config, *settings)) == 1
    assert f"no user has the {needed} interactions that" in capsys.readouterr().err


def test_ranking_needs_columns_of_actions(path: Path, capsys) -> None:
    assert train.main(arguments(path, "own-ranking")) == 1
    assert "data.actions: ranking predicts what users did" in capsys.readouterr().err


def test_a_task_that_nobody_did_leaves_a_report(path: Path) -> None:
    """Its AUC is not a number."""
    own_files.write(path, [{**row, "event": "view"} for row in TABLE])
    settings = ["data.actions=event", "ranking.tasks=view", "ranking.held_out=3"]
    assert train.main(arguments(path, "own-ranking", *settings)) == 0
    assert "no points" in (path.parent / "run/report.html").read_text()
