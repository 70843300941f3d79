"""The Docker engine with a client that is a script: what the terminal and the log see, and what goes into the image."""

from __future__ import annotations

import io
import os
import shlex
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from rich.console import Console

from docker import errors as docker_errors
from grstack import locks
from grstack.engines import Inputs, Mount, docker, names
from grstack.engines.artefacts import constraints
from grstack.engines.docker import DockerEngine
from grstack.engines.names import KEY
from grstack.errors import EngineError, StepError
from grstack.network import Settings
from grstack.paths import Paths
from grstack.plan import Plan, make_plan
from grstack.run import Runner
from tests.project import COMPONENTS, OPERATORS, make_lock, make_project
from tests.store import Image, Store

ROOT = Path(__file__).resolve().parents[2]
WIDEST = 160  # characters of a line that is still read


class Engine:
    """A project whose docker runs `script` in place of every command."""

    def __init__(self, root: Path, script: str) -> None:
        self.root = make_project(root / "a checkout")
        client = root / "docker"
        client.write_text(f"#!/bin/sh\n{script}\n")
        client.chmod(0o755)
        self.out = io.StringIO()
        paths = Paths(root=self.root, cache=root / "cache")
        self.engine = DockerEngine(paths, Runner(Console(file=self.out, width=2000)), Settings())
        self.engine.cli = client
        self.engine.client = self.store = Store()
        self.engine.builds.leftovers_removed = 0

    @property
    def plan(self) -> Plan:
        return self.plan_of("twin")

    def plan_of(self, platform: str, home: str = "") -> Plan:
        return make_plan(
            self.root,
            lock=make_lock(),
            platform=platform,
            base="bootstrap:x",
            build="plain",
            components=COMPONENTS,
            operators=OPERATORS,
            home=home,
        )

    @property
    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()


def test_a_component_s_command_line_is_in_the_log_and_its_step_on_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Engine(tmp_path, "echo 'one.cpp:7: error: no such thing' >&2; exit 1")
    monkeypatch.chdir(made.root)
    plan = made.plan
    with pytest.raises(StepError) as failed:
        made.engine.build(plan, plan.step("operators/one"), Inputs())
    tag = made.engine.locate(plan, plan.step("builder"))
    log = "build/logs/operators-one.log"
    assert made.lines == [f"+ docker run {tag} recipes/operators/build.sh for operators/one   (log: {log})"]
    first, second = str(failed.value).splitlines()[:2]
    assert first.startswith(f"command failed with exit code 1: docker run {tag} recipes/operators/build.sh")
    assert len(first) < WIDEST and second.strip() == "one.cpp:7: error: no such thing"
    assert failed.value.next_command == f"less {shlex.quote(str(made.root / log))}"
    logged = (made.root / log).read_text().splitlines()[0]
    assert "--env=GRSTACK_OPERATOR=one" in logged and len(logged) > WIDEST


@pytest.mark.parametrize("wanted", [True, False])
def test_a_component_is_compiled_through_ccache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: bool) -> None:
    made = Engine(tmp_path, "exit 0")
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("CCACHE_DISABLE", "" if wanted else "1")
    with pytest.raises(StepError):  # nothing is built
        made.engine.build(made.plan, made.plan.step("operators/one"), Inputs())
    words = shlex.split((made.root / "build/logs/operators-one.log").read_text().splitlines()[0].removeprefix("+ "))
    cache = tmp_path / "cache/ccache/docker"
    mounted = f"--volume={cache}/bin:/ccache/bin:ro" in words and f"--volume={cache}/store:/ccache/store" in words
    assert mounted == wanted
    assert words[-2:] == ["bash", "/source/recipes/operators/build.sh"]
    assert ("PATH=/ccache/bin:$PATH" in " ".join(words)) == wanted


def test_an_image_s_command_line_is_in_the_log_and_its_tag_on_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Engine(tmp_path, "exit 0")
    monkeypatch.chdir(made.root)
    plan = made.plan
    made.engine.build(plan, plan.step("environment"), Inputs(requirements="numpy==1.26.4\n"))
    tag = made.engine.locate(plan, plan.step("environment"))
    assert made.lines == [f"+ docker build {tag}   (log: build/logs/environment.log)"]
    assert (
        f"--label=grstack.key={plan.step('environment').key}" in (made.root / "build/logs/environment.log").read_text()
    )


@pytest.mark.parametrize("home", ["", "/usr/local/Ascend/cann-8.5.0"])
def test_an_image_knows_where_its_base_has_the_toolkit(tmp_path: Path, home: str) -> None:
    made = Engine(tmp_path, "exit 0")
    (made.root / "docker/npu/Dockerfile").write_text("FROM x\n# components: here\n")
    plan = replace(made.plan, home=home, steps=made.plan.steps[:3] + made.plan.steps[-1:])  # no component to install
    made.store.stored.append(Image("sha256:1", [names.exact(plan)], labels={KEY: plan.image.key}))
    with pytest.raises(AttributeError):  # its layers are looked at, and this one is a name alone
        made.engine.build(plan, plan.image, Inputs())
    log = (made.root / "build/logs/image.log").read_text()
    assert (f"--build-arg=ASCEND_HOME={home}" in log) == bool(home)


@pytest.mark.parametrize(
    ("platform", "home", "named"),
    [
        ("cann", "", "/usr/local/Ascend/ascend-toolkit/latest"),
        ("cann", "/opt/ascend/cann-8.5.0", "/opt/ascend/cann-8.5.0"),
        ("twin", "", ""),
    ],
)
def test_a_component_is_built_with_the_toolkit_of_its_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, home: str, named: str
) -> None:
    made = Engine(tmp_path, "exit 0")
    monkeypatch.chdir(made.root)
    plan = made.plan_of(platform, home)
    with pytest.raises(StepError):  # nothing is built
        made.engine.build(plan, plan.step("operators/one"), Inputs())
    words = shlex.split((made.root / "build/logs/operators-one.log").read_text().splitlines()[0].removeprefix("+ "))
    given = dict(word.removeprefix("--env=").split("=", 1) for word in words if word.startswith("--env=ASCEND_"))
    names = {"ASCEND_HOME_PATH": named, "ASCEND_TOOLKIT_HOME": named, "ASCEND_OPP_PATH": f"{named}/opp"}
    assert given == (names if named else {})


@pytest.mark.parametrize("interactive", [False, True])
def test_a_command_in_the_image_is_shown_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interactive: bool
) -> None:
    made = Engine(tmp_path, 'for word; do last=$word; done; echo "got $last"; exit 3')
    monkeypatch.chdir(made.root)
    plan = made.plan
    made.store.stored.append(Image("sha256:1", [], labels={KEY: plan.image.key}))
    mounts = [Mount(source=made.root, name=f"mount{number}") for number in range(9)]
    assert made.engine.run(plan, ["bash", "-c", "echo a b"], mounts=mounts, interactive=interactive) == 3
    assert made.lines[0].startswith(f"+ docker run {names.exact(plan)} bash -c 'echo a b'")
    assert len(made.lines[0]) < WIDEST
    if not interactive:
        assert made.lines[1] == "got echo a b"


@pytest.mark.parametrize(("terminal", "words"), [(True, ["--interactive", "--tty"]), (False, ["--interactive"])])
def test_a_shell_asks_for_a_terminal_where_it_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool, words: list[str]
) -> None:
    made = Engine(tmp_path, "exit 0")
    plan = made.plan
    made.store.stored.append(Image("sha256:1", [], labels={KEY: plan.image.key}))
    given: list[str] = []
    monkeypatch.setattr(made.engine.runner, "replace", lambda argv, **more: given.extend(argv) or 0)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: terminal))
    assert made.engine.run(plan, ["bash"], interactive=True) == 0
    assert [word for word in given if word in ("--interactive", "--tty")] == words


def test_a_container_is_given_the_signal_when_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "trap 'sleep 1; echo saved; exit 130' INT; echo $* > words; echo $$ > pid; sleep 60 >&- 2>&- & wait"
    made = Engine(tmp_path, program)  # what sleeps on holds none of its pipes
    monkeypatch.chdir(made.root)
    made.store.stored.append(Image("sha256:1", [], labels={KEY: made.plan.image.key}))
    asked: list[str] = []

    def kill(signal: int) -> None:
        os.kill(int((made.root / "pid").read_text()), signal)

    def get(name: str) -> SimpleNamespace:
        asked.append(name)
        if len(asked) < 3:
            raise docker_errors.NotFound("the client has not made it yet")
        return SimpleNamespace(kill=kill)

    def interrupt() -> None:
        while not (made.root / "pid").exists() or not (made.root / "pid").read_text().strip():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    made.store.containers = SimpleNamespace(get=get)
    threading.Thread(target=interrupt, daemon=True).start()
    assert made.engine.run(made.plan, ["bash", "-c", "cd / && python -m train"], saves=True) == 130
    assert made.lines[-2:] == ["ending; a second Ctrl-C ends it at once", "saved"] and len(set(asked)) == 1
    # else bash has it alone, which goes on waiting for what it runs
    assert "--env=TINI_KILL_PROCESS_GROUP=1 " in (made.root / "words").read_text()


def test_a_private_variable_reaches_the_command_and_is_on_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Engine(tmp_path, 'echo "words $*" | cut -c1-400; echo "has ${#PIP_INDEX_URL} letters"')
    monkeypatch.chdir(made.root)
    made.store.stored.append(Image("sha256:1", [], labels={KEY: made.plan.image.key}))
    given = {"PIP_INDEX_URL": "https://me:secret@packages.example.com/simple"}
    assert made.engine.run(made.plan, ["true"], env={"A": "b"}, private=given) == 0
    said = "\n".join(made.lines)
    assert f"has {len(given['PIP_INDEX_URL'])} letters" in said
    assert "--env=A=b --env=PIP_INDEX_URL " in said and "secret" not in said and "***" not in said


def test_an_image_that_is_gone_is_an_error_with_the_next_command(tmp_path: Path) -> None:
    made = Engine(tmp_path, "exit 0")
    for use in (lambda: made.engine.run(made.plan, ["true"]), lambda: made.engine.name_result(made.plan, take=True)):
        with pytest.raises(EngineError, match="is not there") as error:
            use()
        assert error.value.next_command == "inv build-image"


@pytest.mark.parametrize("build", ["cpu", "plain"])
def test_pip_s_constraints_are_the_locked_versions(build: locks.Build) -> None:
    """Also where the installed one has a local part: 1.1.0+npu and 2.6.0+cpu are what the lines ask for."""
    lock = locks.read(ROOT, "npu", "3.11", "x86_64")
    plan = make_plan(ROOT, lock=lock, platform="twin", base="x", build=build, components=(), operators={})
    lines = constraints(plan).splitlines()
    wanted = {r.name: r.specifier for r in map(Requirement, lines[1:])}
    assert lines[0].startswith("#") and len(wanted) == len(lines) - 1 == len(lock.wheels(build))
    for package in lock.wheels(build):
        assert package.version in wanted[package.name]
    assert "2.2.0" not in wanted["numpy"] and "1.1.0+npu" in wanted["torchrec"]


def test_the_image_s_pip_reads_them() -> None:
    dockerfile = (ROOT / "docker/npu/Dockerfile").read_text(encoding="utf-8")
    config = (ROOT / "docker/npu/pip.conf").read_text(encoding="utf-8")
    place = config.partition("constraint = ")[2].split()[0]
    assert f"COPY constraints.txt {place}" in dockerfile
    assert "COPY docker/pip.conf /opt/grstack/venv/pip.conf" in dockerfile


class Named(Image):
    """An image whose user is not root."""

    @property
    def attrs(self) -> dict[str, object]:
        return {"Config": {"User": "grstack"}}


@pytest.mark.parametrize("rootless", [False, True])
def test_a_run_writes_as_who_started_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rootless: bool) -> None:
    made = Engine(tmp_path, 'for word; do case $word in --user*) echo "$word";; esac; done')
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "getgid", lambda: 1000)
    made.store.answer = {"SecurityOptions": ["name=seccomp,profile=default", *(["name=rootless"] if rootless else [])]}
    plan = made.plan
    made.store.stored.append(Named("sha256:1", [], labels={KEY: plan.image.key}))
    assert made.engine.run(plan, ["true"]) == 0
    assert made.lines[1:] == ["--user=0:0" if rootless else "--user=1000:1000"]


def test_where_selinux_is_enforced_runs_and_builds_read_their_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker.Machine, "selinux", True)
    made = Engine(tmp_path, 'echo "$@"; exit 1')
    monkeypatch.chdir(made.root)
    plan = made.plan
    with pytest.raises(StepError):
        made.engine.build(plan, plan.step("operators/one"), Inputs())
    assert "--security-opt=label=disable" in (made.root / "build/logs/operators-one.log").read_text()
    made.store.stored.append(Image("sha256:1", [], labels={KEY: plan.image.key}))
    made.engine.run(plan, ["true"])
    assert "--security-opt=label=disable" in made.lines[-1]
