"""The command line on one process and under torchrun: stopping, continuing, a batch that diverges, what is written."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from matplotlib.axes import Axes

from gr_model import compare, train
from gr_model.report import figures
from gr_model.report import pages as report
from gr_model.run import checkpoint, run_id
from gr_model.run import log as runlog
from gr_model.tests import data_files
from gr_model.tests.launch import free_port

SMALL = [
    "train.batch=4",
    "model.dim=4",
    "model.qk_dim=4",
    "model.value_dim=4",
    "model.max_items=16",
    "data.workers=0",
    "train.eval_every=0",
    "train.log_every=1",
]
TIME_LIMIT = 300.0
# Where there is a GPU for each of two processes, over nccl.
DEVICE = "cuda" if torch.cuda.device_count() >= 2 else "cpu"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    data_files.ml_1m(root / "ml-1m", data_files.random_rows())
    return root


def steps(out: Path) -> list[tuple[int, float]]:
    return [(e["step"], e["loss"]) for e in runlog.read(out / "log.jsonl") if e["event"] == "step"]


def arguments(folder: Path, out: Path, *settings: str) -> list[str]:
    return ["--config", "ml-1m", "--device", DEVICE, "--data-dir", str(folder), "--out", str(out), *SMALL, *settings]


class Command:
    """A training in processes of its own: alone, or `processes` of torchrun."""

    def __init__(self, options: list[str], processes: int = 0) -> None:
        launcher = [
            "torch.distributed.run",
            "--nproc-per-node",
            str(processes),
            "--master-port",
            str(free_port()),
            "-m",
        ]
        argv = [sys.executable, "-m", *(launcher if processes else []), "gr_model.train", *options]
        here = str(Path(__file__).resolve().parents[2])
        env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": str(int("npu" in options)),  # torch_npu is most of a start's time
            "PYTHONPATH": os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        self.process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self) -> tuple[int, str]:
        try:
            said, _ = self.process.communicate(timeout=TIME_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, said

    def wait_for_step(self, out: Path, step: int) -> None:
        deadline = time.monotonic() + TIME_LIMIT
        while not ((out / "log.jsonl").exists() and any(n >= step for n, _ in steps(out))):
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """The losses of a run of 40 steps that nothing disturbs; the longer ones below begin with them."""
    out = tmp_path_factory.mktemp("whole")
    assert train.main(arguments(folder, out, "train.steps=40")) == 0
    return dict(steps(out))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_run_with_a_checkpoint(folder, whole, tmp_path, number, code) -> None:
    command = Command(arguments(folder, tmp_path, "train.steps=1000000"))
    command.wait_for_step(tmp_path, 3)
    command.process.send_signal(number)
    exit_code, said = command.finish()
    assert exit_code == code, said
    assert "Traceback" not in said
    stopped_at = steps(tmp_path)[-1][0]
    assert (tmp_path / f"checkpoints/step-{stopped_at:08d}/run.json").exists()
    assert (tmp_path / "report.html").exists()
    (told,) = (line.partition("to go on: ")[2] for line in said.splitlines() if "to go on: " in line)
    python, _, module, *more = shlex.split(told)
    assert (python, module) == ("python", "gr_model.train") and "--device" in more and "--data-dir" in more
    assert train.main([*more, f"train.steps={stopped_at + 3}"]) == 0  # as it is printed
    got = steps(tmp_path)
    assert [step for step, _ in got] == list(range(1, stopped_at + 4))
    assert all(whole[step] == loss for step, loss in got if step in whole)


@pytest.fixture(scope="module")
def killed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two processes of torchrun with a part of the table each, the second killed after the checkpoint of step 10."""
    out = tmp_path_factory.mktemp("killed")
    settings = (
        "train.steps=1000000",
        "train.checkpoint_every=10",
        "train.deterministic=true",
        "embedding.kind=sharded",
        "embedding.lr=1e-3",
    )
    command = Command(arguments(folder, out, *settings), processes=2)
    command.wait_for_step(out, 12)
    (victim,) = (pid for pid in workers(command.process.pid) if environment(pid).get("RANK") == "1")
    os.kill(victim, signal.SIGKILL)
    exit_code, said = command.finish()
    assert exit_code != 0, said
    return out


def workers(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def environment(pid: int) -> dict[str, str]:
    entries = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(entry.partition("=")[::2] for entry in entries)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_goes_on_after_a_worker_was_killed(folder, killed, tmp_path, processes: int) -> None:
    """On as many processes the same losses to the last bit; alone to rounding, because the sums are other ones."""
    checkpoint = sorted((killed / "checkpoints").glob("step-*"))[0]
    first = int(checkpoint.name[5:])
    options = ["--resume", str(checkpoint), "--device", DEVICE, "--data-dir", str(folder), "--out", str(tmp_path)]
    options += ["train.steps=40"]
    code, said = Command(options, processes).finish()
    assert code == 0, said
    before, after = dict(steps(killed)), dict(steps(tmp_path))
    assert list(after) == list(range(first + 1, 41))
    common = [step for step in after if step in before]
    assert common
    for step in common:
        assert after[step] == (before[step] if processes == 2 else pytest.approx(before[step], rel=1e-5))


@pytest.mark.parametrize("to", ["torchrun", "one process"])
def test_a_signal_ends_all_processes_with_a_checkpoint(folder, tmp_path, to: str) -> None:
    """What one process was told all do: they agree, save together, and none breaks off."""
    command = Command(arguments(folder, tmp_path, "train.steps=1000000"), processes=2)
    command.wait_for_step(tmp_path, 3)
    ranks = {environment(pid).get("RANK"): pid for pid in workers(command.process.pid)}
    os.kill(command.process.pid if to == "torchrun" else ranks["1"], signal.SIGTERM)
    _, said = command.finish()
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks.values() if pid)
    assert not re.search(r'File ".*gr_model/', said) and "SIGKILL" not in said, said  # no stack of ours
    stopped_at = steps(tmp_path)[-1][0]
    assert (tmp_path / f"checkpoints/step-{stopped_at:08d}/run.json").exists(), said
    assert "stopped; to go on" in said


def test_the_same_command_goes_on_where_it_was(folder, whole, tmp_path) -> None:
    """As after a restart by torchrun or by a scheduler."""
    for stop in (3, 6):
        assert train.main([*arguments(folder, tmp_path, f"train.steps={stop}"), "--go-on"]) == 0
    assert steps(tmp_path) == [(step, whole[step]) for step in range(1, 7)]


@pytest.mark.parametrize("pipeline", ["none", "sparse_dist"])
def test_tables_that_grow_stop_and_go_on(folder, tmp_path, pipeline) -> None:
    """With rows on disk, which the second command takes from the checkpoint and not from what the first one left."""
    table = [
        "embedding.kind=embcache",
        "embedding.cache_rows=3000",
        "embedding.host_rows=100",
        f"embedding.folder={tmp_path / 'rows'}",
        f"train.pipeline={pipeline}",
        "train.eval_every=2",
    ]
    whole = arguments(folder, tmp_path / "whole", *table, "train.steps=6")
    assert train.main(whole) == 0
    for stop in (3, 6):
        assert train.main([*arguments(folder, tmp_path / "parts", *table, f"train.steps={stop}"), "--go-on"]) == 0
    assert steps(tmp_path / "parts") == steps(tmp_path / "whole") and len(steps(tmp_path / "whole")) == 6
    metrics = [json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("parts", "whole")]
    for metric, name in zip(metrics, ("parts", "whole")):
        assert metric.pop("run") == run_id.read(tmp_path / name).run
    assert metrics[0] == metrics[1]


def test_a_loss_that_is_not_finite_leaves_its_batch(folder, tmp_path, capsys) -> None:
    assert train.main(arguments(folder, tmp_path, "train.steps=20", "train.lr=1e30")) == 2
    told = capsys.readouterr().err
    last = steps(tmp_path)[-1][0]
    run = run_id.read(tmp_path).run
    path = tmp_path / f"diverged/step-{last + 1:08d}-process-0.{run}.pt"
    assert f"at step {last + 1}" in told and str(path) in told
    kept = torch.load(path, weights_only=True)
    assert kept["run"] == run and kept["step"] == last + 1 and len(kept["users"]) == 4
    assert kept["batch"]["tokens"]["items_I"].dtype == torch.int64
    assert not (tmp_path / "checkpoints").exists()


def test_what_a_run_writes(folder, tmp_path, drawn) -> None:
    options = arguments(
        folder,
        tmp_path,
        "train.steps=7",
        "train.eval_every=3",
        "train.clip=1",
        "train.warmup=4",
        "train.checkpoint_every=2",
        "data.workers=1",
    )
    assert train.main([*options, "--tensorboard", "--phases"]) == 0
    events = runlog.read(tmp_path / "log.jsonl")
    assert [e["event"] for e in events] == [
        "start",
        *["step"] * 3,
        "evaluation",
        *["step"] * 3,
        "evaluation",
        "step",
        "evaluation",
    ]
    one = events[1]
    assert set(one["phases"]) == {"data", "batch", "forward", "backward", "optimizer"}
    assert sum(one["phases"].values()) <= one["seconds"] * 1.01 and 0 < one["mfu"] < 1
    assert one["memory"]["host"] > 2**20 and one["gradient_norm"] > 0
    assert [round(e["lr"] * 4e3) for e in events if e["event"] == "step"] == [1, 2, 3, 4, 4, 4, 4]
    assert [path.name for path in sorted((tmp_path / "checkpoints").iterdir())] == ["step-00000006", "step-00000007"]
    page = (tmp_path / "report.html").read_text()
    assert "MFU" in page and "Seconds by phase" in page and "http" not in page
    for name in ("loss", "metrics", "speed", "memory"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert scalars(tmp_path / "tensorboard")["train/loss"] == [(e["step"], e["loss"]) for e in events if "loss" in e]


@pytest.mark.parametrize(("backbone", "shown"), [("hstu", "HSTU"), ("sasrec", "SASRec"), ("dcn", "DCN V2")])
def test_reports_name_the_model_and_draw_its_memory(tmp_path, monkeypatch, drawn, backbone, shown) -> None:
    start = {
        "event": "start",
        "device": "cpu",
        "torch": "2",
        "protocol": "p",
        "baseline": {"name": "popular", "metrics": {"m": 1.0}},
        "config": {"task": "ranking", "dataset": "d", "model": {"backbone": backbone}},
    }
    memory = [{"host": 3 * 2**20}, {"host": 5 * 2**20, "device": 7 * 2**20}]
    events = [
        start,
        *(
            {"event": "step", "step": n + 1, "loss": 1.0, "seconds": 1.0, "tokens": 1, "memory": kept}
            for n, kept in enumerate(memory)
        ),
        {"event": "evaluation", "step": 2, "metrics": {"m": 2.0}},
    ]
    page = report.training_page(events)
    assert f"<h1>Ranking: {shown}</h1>" in page and f">{shown} 2</text>" in page
    assert ("HSTU" in page) == (backbone == "hstu")
    drawn = {}
    plot = Axes.plot

    def record(axes, *arguments, label, **options):
        drawn[label] = [[float(v) for v in values] for values in arguments[:2]]
        return plot(axes, *arguments, label=label, **options)

    monkeypatch.setattr(Axes, "plot", record)
    assert tmp_path / "memory.png" in figures.write(events, tmp_path)
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")
    assert drawn["host"] == [[1, 2], [3, 5]] and drawn["device"] == [[2], [7]] and drawn[shown] == [[2], [2]]


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(folder))
    board.Reload()
    return {
        tag: [(event.step, pytest.approx(event.value, rel=1e-6)) for event in board.Scalars(tag)]
        for tag in board.Tags()["scalars"]
    }


def test_compare(folder, tmp_path, capsys) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        assert train.main(arguments(folder, tmp_path / name, "train.steps=3", f"train.seed={seed}")) == 0
    capsys.readouterr()
    page = tmp_path / "page.html"
    assert compare.main([str(tmp_path / "a"), str(tmp_path / "b" / "log.jsonl"), "--out", str(page)]) == 0
    told = capsys.readouterr().out
    assert "train.seed: 0 -> 1" in told and "hr@10" in told and "loss at step 3" in told
    a, b = dict(steps(tmp_path / "a")), dict(steps(tmp_path / "b"))
    apart = max(abs(a[step] - b[step]) / abs(b[step]) for step in a)
    row = next(line for line in told.splitlines() if line.startswith("largest relative difference"))
    assert float(row.split()[-1]) == pytest.approx(apart, rel=1e-4)
    assert page.read_text().count("<svg") >= 5 and "train.seed" in page.read_text()
    assert compare.main([str(tmp_path / "a"), str(tmp_path / "none")]) == 1
    assert "not the log of a run" in capsys.readouterr().err
    assert json.loads((tmp_path / "a/metrics.json").read_text())["step"] == 3


@pytest.mark.twin
@pytest.mark.emulated
def test_a_process_alone_trains_on_an_emulated_npu(folder, tmp_path, monkeypatch) -> None:
    """The README's command: the model is on the device that was asked for, and its losses are the CPU's; its report
    has what was counted, its log every step though the losses of several are read at once."""
    monkeypatch.setenv("TWIN_COUNTS", str(tmp_path / "counts-%p.jsonl"))
    for device in ("cpu", "npu"):
        options = arguments(
            folder, tmp_path / device, "train.steps=3", "train.eval_every=0", "train.deterministic=true"
        )
        code, said = Command([*options, "--device", device]).finish()
        assert code == 0, said
    losses = [[loss for _, loss in steps(tmp_path / device)] for device in ("cpu", "npu")]
    assert len(losses[0]) == 3 and losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert [step for step, _ in steps(tmp_path / "npu")] == [1, 2, 3]
    (counted,) = [event for event in runlog.read(tmp_path / "npu/log.jsonl") if event["event"] == "counts"]
    page = (tmp_path / "npu/report.html").read_text()
    assert counted["steps"] == 3 and "Counted on the emulated NPU" in page
    assert f'<td>launches</td><td class="n">{dict(counted["figures"])["launches"]}</td>' in page
    assert "Counted" not in (tmp_path / "cpu/report.html").read_text()


def test_a_folder_that_is_written_at_this_moment_is_refused(folder, tmp_path, capsys) -> None:
    command = Command(arguments(folder, tmp_path, "train.steps=1000000", "train.checkpoint_every=1"))
    try:
        command.wait_for_step(tmp_path, 3)
        second = ["--resume", str(tmp_path), "--device", DEVICE, "--data-dir", str(folder)]
        assert train.main(second) == 1
        assert "another process writes this run at this moment" in capsys.readouterr().err
    finally:
        command.process.send_signal(signal.SIGTERM)
        code, said = command.finish()
    assert code == 143, said
    run = run_id.read(tmp_path).run
    assert {event["run"] for event in runlog.read(tmp_path / "log.jsonl")} == {run}


def test_two_processes_agree_where_the_run_goes(folder, tmp_path, monkeypatch) -> None:
    """By their own clocks and ids they would differ; the first one's refusal is told once, and ends both."""
    monkeypatch.setenv("GRSTACK_RUNS", str(tmp_path))
    options = arguments(folder, tmp_path, "train.steps=2")
    at = options.index("--out")
    code, said = Command([*options[:at], *options[at + 2 :]], processes=2).finish()
    assert code == 0, said
    out = (tmp_path / "latest").resolve()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([out.name, "latest"])
    run = run_id.read(out).run
    newest = checkpoint.newest(out)
    written = sorted(path.name for path in newest.iterdir() if path.name != checkpoint.RUN)
    assert {"__0_0.distcp", "__1_0.distcp"} < set(written)  # of both processes
    assert checkpoint.read_run(newest) | {"config": None} == {
        "format": 1,
        "run": run,
        "step": 2,
        "config": None,
        "processes": 2,
        "files": written,
    }
    before = sorted(path.name for path in out.rglob("*"))
    code, said = Command(arguments(folder, out, "train.steps=2"), processes=2).finish()
    assert code == 1 and said.count(f"holds run {run}") == 1 and "process 0: " in said, said
    assert sorted(path.name for path in out.rglob("*")) == before


def test_compare_refuses_what_cannot_be_compared(folder, tmp_path, capsys) -> None:
    ranking = ["task=ranking", "model.interleave=true", "model.max_items=8", "ranking.held_out=2"]
    for name, more in (("a", []), ("b", ranking)):
        assert train.main(arguments(folder, tmp_path / name, "train.steps=2", *more)) == 0
    page = tmp_path / "page.html"
    capsys.readouterr()
    assert compare.main([str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(page)]) == 1
    assert "a is a run of retrieval, b of ranking" in capsys.readouterr().err and not page.exists()
    # As versions before could leave it: a run over another one, which then went on.
    lines = (tmp_path / "a/log.jsonl").read_text().splitlines()
    joined = [json.loads(line) for line in lines]
    for number, later in enumerate(({"run": "another"}, {"event": "start", "step": 7})):
        mixed = tmp_path / f"mixed-{number}.jsonl"
        events = [*joined, {**joined[0], **later}]
        if number:
            events = [{key: value for key, value in event.items() if key != "run"} for event in events]
        mixed.write_text("".join(json.dumps(event) + "\n" for event in events))
        assert compare.main([str(tmp_path / "a"), str(mixed), "--out", str(page)]) == 1
        assert "several runs" in (told := capsys.readouterr().err) or "lines of two runs" in told
    assert not page.exists()
