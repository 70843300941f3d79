"""A folder belongs to one run: what a second one may do there, what carries the run's id, and what may be removed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
import torch

from gr_model import compare, train
from gr_model.report import pages as report
from gr_model.run import checkpoint, lock, run_id
from gr_model.run import folder as run_folder
from gr_model.run import log as runlog
from gr_model.run.lock import RunFolderError

SMALL = ["train.batch=2", "model.dim=4", "model.qk_dim=4", "model.value_dim=4", "train.eval_every=0"]


@pytest.fixture
def base(atomic_folder: Path) -> list[str]:
    return ["--config", "ml-100k-retrieval", "--data-dir", str(atomic_folder.parent), *SMALL]


def resume(atomic_folder: Path, run: Path, *more: str) -> list[str]:
    return ["--resume", str(run), "--data-dir", str(atomic_folder.parent), *more]


def content(folder: Path) -> dict[str, str]:
    """Every file below, by name; but the lock, which says nothing."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != lock.LOCK
    }


def events(out: Path, kind: str) -> list[dict]:
    return [event for event in runlog.read(out / "log.jsonl") if event["event"] == kind]


def names(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "checkpoints").iterdir())


def test_a_second_run_is_refused_and_the_first_one_goes_on(base, atomic_folder, tmp_path, capsys) -> None:
    """It pruned by step number: its own checkpoints went at once, the other run's stayed and were continued."""
    out = tmp_path / "out"
    assert train.main([*base, "--out", str(out), "train.steps=6", "train.checkpoint_every=2", "train.seed=1"]) == 0
    before = content(out)
    capsys.readouterr()
    second = [*base, "--out", str(out), "train.steps=3", "train.seed=7"]
    assert train.main(second) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"error: {out}: holds run ") and f"--resume {out}" in told and "--overwrite" in told
    assert told.count("\n") <= 2 and content(out) == before
    assert train.main(resume(atomic_folder, out, "train.steps=7")) == 0
    assert {e["config"]["train"]["seed"] for e in events(out, "start")} == {1}
    assert [e["step"] for e in events(out, "step")] == list(range(1, 8))


def test_overwriting_keeps_what_the_run_did_not_write(base, tmp_path, capsys) -> None:
    out = tmp_path / "out"
    assert train.main([*base, "--out", str(out), "train.steps=6", "train.checkpoint_every=2", "--tensorboard"]) == 0
    old = run_id.read(out).run
    (out / "notes.txt").write_text("mine")
    (out / "checkpoints" / ".step-00000099").mkdir()  # as a kill leaves it
    foreign = out / "checkpoints" / "step-00000050"
    shutil.copytree(out / "checkpoints/step-00000006", foreign)
    note = json.loads((foreign / "run.json").read_text())
    (foreign / "run.json").write_text(json.dumps({**note, "run": "another"}))
    before = content(out)
    second = [*base, "--out", str(out), "--overwrite", "train.steps=3", "--tensorboard"]
    assert train.main(second) == 1
    assert "checkpoints/step-00000050 is not of run" in capsys.readouterr().err and content(out) == before
    shutil.rmtree(foreign)
    assert train.main(second) == 0
    new = run_id.read(out).run
    assert new != old and (out / "notes.txt").read_text() == "mine"
    assert names(out) == ["step-00000003"] and checkpoint.newest(out) == out / "checkpoints/step-00000003"
    (board,) = (out / "tensorboard").iterdir()
    assert board.name.endswith(new)


def test_files_of_somebody_else_are_not_written_over(base, tmp_path, capsys) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.html").write_text("a report of my own")
    for more in ([], ["--overwrite"]):
        assert train.main([*base, "--out", str(out), "train.steps=1", *more]) == 1
        assert "has report.html, of no run that is marked" in capsys.readouterr().err
    assert content(out).keys() == {"report.html"} and (out / "report.html").read_text() == "a report of my own"


def test_everything_that_a_run_writes_carries_its_id(base, tmp_path) -> None:
    out = tmp_path / "out"
    assert train.main([*base, "--out", str(out), "train.steps=2"]) == 0
    run = run_id.read(out).run
    assert run and {event.get("run") for event in runlog.read(out / "log.jsonl")} == {run}
    assert checkpoint.read_run(checkpoint.newest(out))["run"] == run
    assert json.loads((out / "metrics.json").read_text())["run"] == run and run in (out / "report.html").read_text()
    assert run.encode() in (out / "loss.png").read_bytes()


def test_without_out_each_run_has_a_new_folder(base, tmp_path, monkeypatch) -> None:
    """Three in the same second too."""
    monkeypatch.setenv("GRSTACK_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr("time.strftime", lambda form: "20260102-030405")
    for seed in range(3):
        assert train.main([*base, "train.steps=1", f"train.seed={seed}"]) == 0
        newest = (tmp_path / "runs/latest").resolve()
        assert events(newest, "start")[0]["config"]["train"]["seed"] == seed
    folders = sorted(path.name for path in (tmp_path / "runs").iterdir())
    name = "20260102-030405-ml-100k-retrieval"
    assert folders == [name, f"{name}.2", f"{name}.3", "latest"]
    assert len({run_id.read(tmp_path / "runs" / folder).run for folder in folders[:3]}) == 3


def test_a_folder_named_latest_is_left_alone(base, tmp_path, monkeypatch, capsys) -> None:
    """Versions before wrote their runs there."""
    monkeypatch.setenv("GRSTACK_RUNS", str(tmp_path))
    (tmp_path / "latest").mkdir()
    (tmp_path / "latest" / "log.jsonl").write_text("old")
    assert train.main([*base, "train.steps=1"]) == 0
    assert (tmp_path / "latest/log.jsonl").read_text() == "old" and "is a folder" in capsys.readouterr().out


def test_a_run_branches_off_into_another_folder(base, atomic_folder, tmp_path, capsys) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    assert train.main([*base, "--out", str(one), "train.steps=4", "train.checkpoint_every=2"]) == 0
    before = content(one)
    older = one / "checkpoints/step-00000002"
    capsys.readouterr()
    assert train.main(resume(atomic_folder, older, "train.steps=3")) == 1  # in its own folder steps 3, 4 would be twice
    told = capsys.readouterr().err
    assert "the run has gone on since, to step-00000004" in told and "--out ANOTHER_FOLDER" in told
    assert train.main(resume(atomic_folder, older, "--out", str(two), "train.steps=3")) == 0
    assert content(one) == before
    assert run_id.read(two).run != run_id.read(one).run
    assert run_id.read(two).continues["run"] == run_id.read(one).run and run_id.read(two).continues["step"] == 2
    assert [e["step"] for e in events(two, "step")] == [3]
    assert train.main(resume(atomic_folder, older, "--out", str(two), "train.steps=3")) == 1
    assert "holds run" in capsys.readouterr().err


def without_ids(out: Path) -> None:
    """As versions before wrote it."""
    (out / run_id.FILE).unlink()
    log = [{key: value for key, value in event.items() if key != "run"} for event in runlog.read(out / "log.jsonl")]
    (out / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in log))
    for path in (out / "checkpoints").glob("*/run.json"):
        note = json.loads(path.read_text())
        del note["run"]
        path.write_text(json.dumps(note))


def test_checkpoints_of_versions_before_are_read_and_stay(base, atomic_folder, tmp_path, capsys) -> None:
    out = tmp_path / "out"
    assert train.main([*base, "--out", str(tmp_path / "whole"), "train.steps=8"]) == 0
    assert train.main([*base, "--out", str(out), "train.steps=4", "train.checkpoint_every=2"]) == 0
    without_ids(out)
    assert train.main([*base, "--out", str(out), "train.steps=4", "--overwrite"]) == 1
    assert "of no run that is marked" in capsys.readouterr().err
    more = resume(atomic_folder, out, "train.steps=8", "train.checkpoint_every=1")
    assert train.main(more) == 0
    assert [(e["step"], e["loss"]) for e in events(out, "step")] == [
        (e["step"], e["loss"]) for e in events(tmp_path / "whole", "step")
    ]
    assert names(out) == [f"step-{step:08d}" for step in (2, 4, 7, 8)]  # pruned are those with this run's id alone
    assert train.main([*more, "train.steps=9"]) == 0
    assert names(out) == [f"step-{step:08d}" for step in (2, 4, 8, 9)]


def test_pruning_and_saving_again_leave_files_of_somebody_else(tmp_path) -> None:
    """In a checkpoint's own folder: notes on it, converted weights."""
    from gr_model.runtime.world import World

    state = {"config": {}, "model": {"x": torch.zeros(2)}}
    first = checkpoint.save_run(tmp_path, {**state, "step": 1}, World(), run="a", keep=1)
    (first / "converted").mkdir()
    for name in ("notes.txt", "converted/weights.bin"):
        (first / name).write_text("mine")
    checkpoint.save_run(tmp_path, {**state, "step": 1}, World(), run="a", keep=1)
    assert checkpoint.newest(tmp_path) == first and not list((tmp_path / "checkpoints").glob(".*"))
    checkpoint.save_run(tmp_path, {**state, "step": 2}, World(), run="a", keep=1)
    assert names(tmp_path) == ["step-00000001", "step-00000002"]
    assert sorted(str(p.relative_to(first)) for p in first.rglob("*") if p.is_file()) == [
        "converted/weights.bin",
        "notes.txt",
    ]
    assert [folder.name for folder in checkpoint.every(tmp_path)] == ["step-00000002"]


def test_pruning_leaves_checkpoints_of_other_runs(tmp_path) -> None:
    from gr_model.runtime.world import World

    def save(run: str, step: int) -> None:
        state = {"config": {}, "step": step, "model": {"w": torch.full((2,), float(step))}}
        checkpoint.save_run(tmp_path, state, World(), run=run, keep=1)

    for step in (20, 30):
        save("one", step)
    for step in (5, 8):
        save("two", step)
    assert names(tmp_path) == ["step-00000008", "step-00000030"]
    with pytest.raises(checkpoint.RunCheckpointError, match="not of run two"):
        save("two", 30)
    with pytest.raises(checkpoint.RunCheckpointError, match="checkpoints of several runs"):
        checkpoint.find(tmp_path)


def test_going_on_with_another_config_is_refused(base, atomic_folder, tmp_path, capsys) -> None:
    out = tmp_path / "out"
    smoke = ["--config", "smoke", *base[2:], "--out", str(out), "--go-on", "train.steps=2"]
    assert train.main(smoke) == 0
    before = content(out)
    capsys.readouterr()
    other = ["--config", "ml-100k-retrieval", *base[2:], "--out", str(out), "--go-on", "train.steps=4"]
    assert train.main(other) == 1
    told = capsys.readouterr().err
    assert "holds a run of --config smoke" in told and "model.max_items (there 50, asked for 200)" in told
    assert "train.steps" not in told and "train.ema" in told and content(out) == before  # named, so it may change
    assert train.main([*smoke[:-1], "train.steps=3"]) == 0
    assert train.main([*smoke[:-1], "train.steps=4", "model.dim=8"]) == 1
    assert "made with model.dim=4" in capsys.readouterr().err
    assert train.main([*base, "--go-on", "train.steps=1"]) == 1
    assert "--go-on needs the folder" in capsys.readouterr().err


def test_going_on_before_the_first_checkpoint_begins_again_as_the_same_run(base, tmp_path) -> None:
    out = tmp_path / "out"
    command = [*base, "--out", str(out), "--go-on", "train.steps=3"]
    assert train.main(command) == 0
    run, losses = run_id.read(out).run, [e["loss"] for e in events(out, "step")]
    shutil.rmtree(out / "checkpoints")
    assert train.main(command) == 0
    assert run_id.read(out).run == run and [e["loss"] for e in events(out, "step")] == losses


def test_two_claims_of_one_folder(tmp_path) -> None:
    """Both were told that it is free, before they loaded their data."""
    first, second = (run_folder.for_new(tmp_path / "out", "smoke") for _ in range(2))
    with run_folder.claimed(first, "smoke", {}) as (place, _):
        runlog.Log(place.out / "log.jsonl", place.run)("step", step=1)
    with pytest.raises(RunFolderError, match=f"holds run {first.run}"), run_folder.claimed(second, "smoke", {}):
        pass


def test_the_report_names_the_run() -> None:
    start = {"config": {"dataset": "d"}, "device": "cpu", "torch": "2"}
    assert "run 2026-x" in report.lead({**start, "run": "2026-x"}) and "run" not in report.lead(start)


def test_a_config_s_name_keeps_its_dots(tmp_path: Path) -> None:
    """In the second run of a second too."""
    place = run_folder.Place(out=tmp_path / "hstu-1.5", run="x", named=False)
    assert [run_folder._made(place).out.name for _ in range(3)] == ["hstu-1.5", "hstu-1.5.2", "hstu-1.5.3"]


@pytest.fixture
def without_locks(monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "lockf", refuse)


@pytest.mark.usefixtures("without_locks")
def test_where_a_file_system_has_no_locks_one_run_claims_a_folder(tmp_path) -> None:
    place = run_folder.for_new(tmp_path / "out", "a")
    with run_folder.claimed(place, "a", {}):
        owner = (place.out / lock.OWNER).read_text()
        with (
            pytest.raises(RunFolderError, match="another process writes this run"),
            run_folder.claimed(place, "b", {}),
        ):
            pass
        assert (place.out / lock.OWNER).read_text() == owner
    assert not (place.out / lock.OWNER).exists()


@pytest.mark.usefixtures("without_locks")
def test_the_owner_that_was_killed_does_not_keep_the_folder(tmp_path) -> None:
    place = run_folder.for_new(tmp_path / "out", "a")
    place.out.mkdir()
    gone = subprocess.Popen(["true"])
    gone.wait()
    owner = place.out / lock.OWNER
    owner.write_text(f"another-host {gone.pid}")
    with pytest.raises(RunFolderError, match=f"rm {owner}"), run_folder.claimed(place, "a", {}):
        pass
    owner.write_text(f"{socket.gethostname()} {gone.pid}")
    with run_folder.claimed(place, "a", {}):
        assert owner.read_text() == f"{socket.gethostname()} {os.getpid()}"


@pytest.mark.parametrize("damage", [b'{"event": "st', b"\xff\xfe", b"[]", b'{"step": 1}'])
def test_a_damaged_line_of_the_log_is_named(base, atomic_folder, tmp_path, capsys, damage) -> None:
    out = tmp_path / "out"
    assert train.main([*base, "--out", str(out), "train.steps=2"]) == 0
    log = out / "log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], damage + b"\n", *lines[1:]]))
    capsys.readouterr()
    again = resume(atomic_folder, out, "train.steps=3")
    for command in (lambda: train.main(again), lambda: compare.main([str(out), str(out)])):
        assert command() == 1
        told = capsys.readouterr().err
        assert f"{log}:2: the line is damaged" in told and "sed -i" in told and "Traceback" not in told
    log.write_bytes(b"".join(lines))  # as the advice makes it
    assert train.main(again) == 0
