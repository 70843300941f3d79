"""The commands as they are typed, through invoke's own parser; what they call is recorded instead of carried out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from invoke import Program
from invoke.collection import Collection

import tasks
from grstack import commands, suites

ROOT = Path(__file__).resolve().parents[2]
INV = Path(sys.executable).parent / "inv"
BY_MAKE = {"smoke"}  # the first of the README's two commands


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    made: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    for name in (
        "build_image",
        "install_ops",
        "smoke_test",
        "run",
        "lock",
        "doctor",
        "fetch_data",
        "opp",
        "clean",
        "tag",
    ):
        monkeypatch.setattr(commands, name, lambda *a, _name=name, **k: made.append((_name, a, k)))
    monkeypatch.setattr(suites, "run_all", lambda **k: made.append(("test", (), k)))
    return made


def typed(*words: str) -> int:
    """The exit code of `inv WORDS`."""
    program = Program(namespace=Collection.from_module(tasks), version="0")
    with pytest.raises(SystemExit) as ended:
        program.run(["inv", *words])
        raise SystemExit(0)
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("words", "called"),
    [
        (["build-image", "--dry-run", "--platform", "cann"], "build_image"),
        (["install-ops", "--into", "a place", "--op", "dense_to_jagged"], "install_ops"),
        (["install-ops", "--into", "a place", "--soc", "ascend910b", "--force"], "install_ops"),
        (["opp", "--action=which", "--name=DenseToJagged", "--into", "a place"], "opp"),
        (["clean", "--all", "--dry-run"], "clean"),
        (["smoke-test"], "smoke_test"),
        (["smoke", "--engine", "none"], "smoke_test"),
        (["run", "echo hi"], "run"),
        (["run", "--engine", "none", "echo hi"], "run"),
        (["shell"], "run"),
        (["fetch-data", "ml-100k", "--from", "x.whl"], "fetch_data"),
        (["lock", "--check"], "lock"),
        (["tag", "--platform", "cann"], "tag"),
        (["doctor", "--json"], "doctor"),
        (["test", "--unit"], "test"),
    ],
)
def test_each_command_of_the_readme_parses(calls: list[Any], words: list[str], called: str) -> None:
    assert typed(*words) == 0
    assert [name for name, _, _ in calls] == [called]


def test_run_hands_over_its_command_as_one(calls: list[Any]) -> None:
    typed("run", "python -c 'print(1)' | cat")
    assert calls[0][1][1] == ["bash", "-c", "python -c 'print(1)' | cat"]


def test_run_without_a_command_is_refused(calls: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("run") != 0 and not calls
    assert "command" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["build-image", "--target", "tpu"], 2, "valid: cpu, cuda, npu"),
        (["build-image", "--platform", "can"], 2, "valid: cann, twin"),
        (["build-image", "--engine", "podman"], 2, "valid: auto, docker, none"),
        (["build-image", "--python", "3.12", "--engine", "none"], 2, "valid: 3.10, 3.11"),
        (["install-ops", "--op", "sum", "--into", "x"], 2, "dense_to_jagged"),
        (["install-ops", "--op", "dense_to_jagged"], 2, "--into"),
        (["install-ops", "--soc", "ascend910b"], 2, "--into"),
        (["install-ops", "--into", "x", "--soc", "ascend310"], 2, "valid: ascend910_93, ascend910b"),
        (["opp", "--action=show"], 2, "valid: list, remove, verify, which"),
        (["fetch-data", "ml-1"], 2, "ml-100k"),
    ],
)
def test_a_wrong_name_lists_the_valid_ones(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(*words) == code
    error = capsys.readouterr().err
    assert said in error
    assert error.splitlines()[-1].startswith("  next:  inv "), error


@pytest.mark.parametrize(
    "words",
    [
        ["build-image", "--target", "cuda", "--python", "3.10"],
        ["build-image", "--platform", "cann", "--python", "3.10"],
    ],
)
def test_what_cannot_be_built_says_what_can(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(*words) == 5
    assert "  next:  " in capsys.readouterr().err


@pytest.mark.parametrize("task", ["run", "fetch-data", "shell"])
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_of_a_task_is_shown_and_nothing_is_run(task: str, option: str) -> None:
    """Invoke takes the option for the argument of a task that has one: `inv run --help` ran `--help` in the image."""
    done = subprocess.run([str(INV), task, option], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "") and f" {task} [--options]" in done.stdout.splitlines()[0]


@pytest.mark.parametrize("words", [("--list",), ("run", "--help"), ("run", "--print", "k8s", "true")])
def test_a_reader_that_has_seen_enough_ends_a_command_without_a_word(words: tuple[str, ...]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run([str(INV), *words], cwd=ROOT, stdout=writes, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writes)
    said = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]  # of what was to be read
    assert done.returncode != 0 and not said


def test_the_help_offers_no_target_that_is_refused() -> None:
    images = {path.parent.name for path in (ROOT / "docker").glob("*/about.py")}
    assert set(re.findall(r"\b(npu|cpu|cuda)\b", tasks.OPTIONS["target"])) == images
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"--target (\w+)", text)) <= images


@pytest.mark.parametrize(
    ("operators", "reason"),
    [
        ([], "SyncAll of the hardware"),
        (["--op", "dense_to_jagged"], "nothing is built for ascend310p: needs DataCopyPad, which its cores lack"),
    ],
)
def test_a_soc_that_no_operator_can_serve_says_why(
    operators: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("install-ops", "--into", "x", "--soc", "ascend310p", *operators) == 2
    assert reason in capsys.readouterr().err


def test_every_option_is_explained() -> None:
    """What `inv --help TASK` shows: invoke prints the name alone where no help came with it."""
    inv = [str(Path(sys.executable).with_name("inv")), "--help"]
    for task in ("build-image", "rank-table"):
        shown = subprocess.run([*inv, task], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        options = [line for line in shown.partition("Options:")[2].splitlines() if line.startswith("  -")]
        assert options and all(re.search(r"\S {2,}\S", line) for line in options), shown


def test_a_reader_who_leaves_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "node1").write_text("address_0=10.1.1.1\n")
    inv = Path(sys.executable).with_name("inv")
    script = f"{inv} rank-table --hosts node1 --from {tmp_path} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("141\n", "")


def test_the_readme_s_table_has_every_task() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## The commands")[2].partition("\n## ")[0]
    assert set(re.findall(r"\binv ([a-z-]+)", table)) == set(Collection.from_module(tasks).task_names) - BY_MAKE
