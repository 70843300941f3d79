"""`inv run`, `inv shell` and `inv smoke-test` on platforms with devices: what the engine is given, what is printed."""

from __future__ import annotations

import io
import os
import shlex
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from grstack import commands, fetch, session
from grstack.choices import Choices
from grstack.command_line import with_default
from grstack.engines.fake import FakeEngine
from grstack.errors import DeviceError, UsageError
from grstack.launch.machine import Machine
from grstack.launch.request import Request
from tests.machines import atlas, docker, npu_smi_info

ROOT = Path(__file__).resolve().parents[2]
CANN = Choices(platform="cann")


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """An engine that builds and runs nothing, in a checkout with a build folder of its own."""
    root = tmp_path / "checkout"
    root.mkdir()
    for entry in ROOT.iterdir():
        if entry.name not in ("build", "data", ".git", ".venv"):
            (root / entry.name).symlink_to(entry)
    monkeypatch.setenv("GRSTACK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GRSTACK_TORCH_BUILD", "plain")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(commands, "ROOT", root)
    made = FakeEngine()
    monkeypatch.setattr(session, "find_engine", lambda *args: made)
    monkeypatch.setattr(fetch, "fetch_wheels", lambda *args, **more: {})
    monkeypatch.setattr(fetch, "fetch_data", lambda root, name, dest, from_file=None: dest / name)
    return made


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    written = io.StringIO()
    monkeypatch.setattr(commands, "_console", lambda: Console(file=written, width=200, highlight=False))
    return written


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return atlas(tmp_path / "host")


def test_a_run_gets_the_devices_that_were_asked_for(engine: FakeEngine, said: io.StringIO, machine: Machine) -> None:
    commands.run(CANN, ["true"], request=Request(devices="2,3"), machine=machine)
    commands.smoke_test(CANN, Request(devices="all"), machine)
    ids = [access.ids for access in engine.accesses if access is not None]
    assert ids == [(2, 3), tuple(range(8))]


def test_a_run_that_asks_for_none_says_which_it_got(engine: FakeEngine, said: io.StringIO, tmp_path: Path) -> None:
    busy = npu_smi_info(range(8), {(0, 0): [(5, "a")]})
    commands.run(CANN, ["true"], machine=atlas(tmp_path / "busy", info=busy))
    assert engine.accesses[0] is not None and engine.accesses[0].ids == (1,)
    assert "note: NPU 1 is used, the first that is free; --devices 0,1 or --devices all takes others" in said.getvalue()


def test_the_twin_gets_none(engine: FakeEngine, said: io.StringIO, machine: Machine) -> None:
    commands.run(Choices(), ["true"], machine=machine)
    assert engine.accesses == [None]
    with pytest.raises(UsageError, match="platform twin has none of this machine's, its NPUs are emulated") as error:
        commands.run(Choices(), ["true"], request=Request(devices="0"), machine=machine)
    assert "--platform cann" in error.value.next_command


def test_nothing_is_built_for_a_device_that_cannot_be_used(
    engine: FakeEngine, said: io.StringIO, machine: Machine
) -> None:
    with pytest.raises(DeviceError, match="no NPU 9"):
        commands.run(CANN, ["true"], request=Request(devices="9"), machine=machine)
    with pytest.raises(DeviceError, match="no NPU 9"):
        commands.smoke_test(CANN, Request(devices="9"), machine)
    assert engine.history == [] and engine.runs == []


@pytest.mark.parametrize("form", ["docker", "podman", "compose", "k8s"])
def test_what_is_printed_is_alone_on_the_output_and_nothing_is_built(
    engine: FakeEngine, machine: Machine, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    command = "python -m gr_model.train --config ml-1m --out '/out/a b'"
    request = Request(devices="0,1", form=form)
    assert commands.run(CANN, ["bash", "-c", command], request=request, machine=machine) == 0
    text = capsys.readouterr().out
    if form in ("docker", "podman"):
        words = shlex.split(text)
        assert words[0] == form and words[-3:] == ["bash", "-c", command]
        assert [word for word in words if word.startswith("--device=/dev/davinci")][:2] == [
            "--device=/dev/davinci0",
            "--device=/dev/davinci1",
        ]
    else:
        assert yaml.safe_load(text)
    assert engine.history == [] and engine.runs == []
    assert not (commands.ROOT / "build/out").exists()


@pytest.mark.parametrize("form", ["docker", "podman", "compose", "k8s"])
def test_nothing_printed_takes_a_public_registry_s_image_of_that_name(
    engine: FakeEngine, machine: Machine, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """Anybody may own the namespace `grstack` there."""
    commands.run(CANN, ["true"], request=Request(devices="0", form=form), machine=machine)
    told = capsys.readouterr()
    if form in ("docker", "podman"):
        words = shlex.split(told.out)
        assert words.index("--pull=never") < words.index("grstack/npu:cann")
    elif form == "compose":
        assert yaml.safe_load(told.out)["services"]["grstack"]["pull_policy"] == "never"
    else:
        pod = yaml.safe_load(told.out)["spec"]["template"]["spec"]
        assert pod["containers"][0]["image"] == "registry.invalid/grstack/npu:cann"
        assert "# First push the image to a registry of yours" in told.out


@pytest.mark.parametrize("choices", [Choices(), Choices(target="cpu")])
def test_what_is_printed_writes_as_who_asked(
    engine: FakeEngine, machine: Machine, capsys: pytest.CaptureFixture[str], choices: Choices
) -> None:
    """The images' own user may not write to the folders that are mounted."""
    user = f"{os.getuid()}:{os.getgid()}"
    commands.run(choices, ["true"], request=Request(form="docker"), machine=machine)
    assert f"--user={user}" in shlex.split(capsys.readouterr().out)
    commands.run(choices, ["true"], request=Request(form="compose"), machine=machine)
    assert yaml.safe_load(capsys.readouterr().out)["services"]["grstack"]["user"] == user


def test_a_shell_s_compose_file_says_what_gives_it_a_terminal(
    engine: FakeEngine, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    for interactive, typed in ((True, "run --rm grstack"), (False, "up --abort-on-container-exit")):
        commands.run(CANN, ["bash"], interactive=interactive, request=Request(form="compose"), machine=machine)
        assert capsys.readouterr().out.startswith(f"# docker compose -f FILE {typed}\nservices:\n")


def test_the_smoke_test_is_printed_too(
    engine: FakeEngine, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.smoke_test(CANN, Request(form="docker"), machine)
    out = capsys.readouterr().out
    assert "-m smoke_tests --out /out --data-dir /data" in out and "/locks:ro" in out
    with pytest.raises(UsageError, match="/locks is a folder of this machine"):
        commands.smoke_test(CANN, Request(form="k8s"), machine)


def test_what_a_cluster_cannot_run_is_refused(engine: FakeEngine, machine: Machine) -> None:
    with pytest.raises(UsageError, match="a shell is no job"):
        commands.run(CANN, ["bash"], interactive=True, request=Request(form="k8s"), machine=machine)
    with pytest.raises(UsageError, match="/source is a folder of this machine"):
        commands.run(CANN, ["bash", "-c", "ls /source"], request=Request(form="k8s"), machine=machine)
    commands.run(CANN, ["bash", "-c", "ls /out/source"], request=Request(form="k8s"), machine=machine)


def test_a_form_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match="valid: compose, docker, k8s, podman"):
        Request(form="helm")


def test_print_may_stand_without_a_word() -> None:
    forms, tasks = ("docker", "k8s"), ("build-image", "run")
    assert with_default(["run", "x", "--print"], "--print", forms, tasks) == ["run", "x", "--print=docker"]
    assert with_default(["run", "--print", "k8s"], "--print", forms, tasks) == ["run", "--print", "k8s"]
    assert with_default(["run", "--print", "echo hi"], "--print", forms, tasks)[1] == "--print=docker"
    assert with_default(["run", "--print", "x", "--devices", "0"], "--print", forms, tasks)[1] == "--print=docker"
    for typed in (["run", "--print", "helm", "true"], ["run", "true", "--print", "helm"], ["run", "--print", "a", "b"]):
        with pytest.raises(UsageError, match=r"--print: '(helm|a)' is none of docker, k8s; a command of several"):
            with_default(typed, "--print", forms, tasks)
    for typed in (["build-image", "run", "--print", "x"], ["run", "--print", "x", "build-image"]):  # two tasks
        assert "--print=docker" in with_default(typed, "--print", forms, tasks)
    with pytest.raises(UsageError, match="helm") as two:
        with_default(["build-image", "run", "--print", "helm", "x"], "--print", forms, tasks)
    assert two.value.next_command == 'inv run --print docker "COMMAND"'
    assert with_default(["run", "--print=k8s", "x"], "--print", forms, tasks) == ["run", "--print=k8s", "x"]


def test_without_a_gpu_a_cuda_image_gets_none(engine: FakeEngine, said: io.StringIO, tmp_path: Path) -> None:
    """Asked for, it is still refused; `none` asks nothing."""
    here = Machine(root=tmp_path / "no gpu")
    choices = Choices(target="cuda")
    assert commands.run(choices, ["true"], machine=here) == 0
    assert "no GPU and no driver here" in said.getvalue()
    commands.run(choices, ["true"], request=Request(devices="none"), machine=here)
    commands.run(CANN, ["true"], request=Request(devices="none"), machine=here)
    assert engine.accesses == [None, None, None]
    with pytest.raises(DeviceError, match="no GPU 0"):
        commands.run(choices, ["true"], request=Request(devices="0"), machine=here)


@pytest.mark.parametrize("choices", [Choices(), Choices(target="cpu"), Choices(target="cuda")])
def test_podman_of_a_user_keeps_their_number_without_devices_too(
    engine: FakeEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str], choices: Choices
) -> None:
    """Without it the number is one of the subordinate ones, and /out is closed."""
    request = Request(form="podman", devices="none" if choices.target == "cuda" else "")
    for uid, keeps in ((1000, True), (0, False)):
        commands.run(choices, ["true"], request=request, machine=Machine(root=tmp_path, uid=uid, gid=uid))
        printed = capsys.readouterr()
        words = shlex.split(printed.out)
        assert f"--user={uid}:{uid}" in words and ("--userns=keep-id" in words) is keeps
        image = next(word for word in words if word.startswith("grstack/"))
        assert f"docker save {image} | podman load" in " ".join(printed.err.split())


def test_for_rootless_docker_a_line_runs_as_root(
    engine: FakeEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docker(tmp_path, rootless=True)
    here = Machine(root=tmp_path, uid=1000, gid=1000)
    for form, user in (("docker", "0:0"), ("podman", "1000:1000")):
        commands.run(Choices(target="cpu"), ["true"], request=Request(form=form), machine=here)
        assert f"--user={user}" in shlex.split(capsys.readouterr().out)
    commands.run(Choices(target="cpu"), ["true"], request=Request(form="compose"), machine=here)
    assert yaml.safe_load(capsys.readouterr().out)["services"]["grstack"]["user"] == "0:0"


@pytest.mark.parametrize("choices", [Choices(), Choices(target="cpu"), Choices(target="cuda"), CANN])
def test_where_selinux_is_enforced_mounts_can_be_read_without_devices_too(
    engine: FakeEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str], choices: Choices
) -> None:
    (tmp_path / "sys/fs/selinux").mkdir(parents=True)
    (tmp_path / "sys/fs/selinux/enforce").write_text("1")
    here = Machine(root=tmp_path, uid=1000, gid=1000)
    devices = "none" if choices.target == "cuda" or choices.platform == "cann" else ""
    for form in ("docker", "podman"):
        commands.run(choices, ["true"], request=Request(form=form, devices=devices), machine=here)
        assert "--security-opt=label=disable" in shlex.split(capsys.readouterr().out)
    commands.run(choices, ["true"], request=Request(form="compose", devices=devices), machine=here)
    service = yaml.safe_load(capsys.readouterr().out)["services"]["grstack"]
    assert service["security_opt"] == ["label=disable"]


@pytest.mark.parametrize(("name", "told"), [("", False), ("docker-desktop", True)])
def test_an_engine_on_another_machine_is_said(
    engine: FakeEngine, said: io.StringIO, machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str, told: bool
) -> None:
    """A rootless engine has a socket of its own too, and is on this machine."""
    docker(machine.root, name=name, rootless=not told)
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/user/1000/docker.sock")
    commands.run(CANN, ["true"], request=Request(devices="0"), machine=machine)
    assert ("the container engine is on docker-desktop" in said.getvalue()) is told
    assert ("the container engine is on" in said.getvalue()) is told
    before = said.getvalue().count("the container engine is on")
    commands.run(Choices(platform="cann", engine="none"), ["true"], request=Request(devices="0"), machine=machine)
    assert said.getvalue().count("the container engine is on") == before


@pytest.mark.parametrize("choices", [Choices(), Choices(target="cpu")])
def test_none_may_be_said_where_there_are_none(engine: FakeEngine, said: io.StringIO, choices: Choices) -> None:
    commands.run(choices, ["true"], request=Request(devices="none"))
    assert engine.accesses == [None] and len(engine.runs) == 1
    with pytest.raises(UsageError, match="--devices: platform"):
        commands.run(choices, ["true"], request=Request(devices="all"))


@pytest.mark.parametrize("form", ["docker", "podman", "compose", "k8s"])
def test_folders_that_are_missing_are_said(
    engine: FakeEngine, machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.chdir(commands.ROOT)
    commands.run(CANN, ["true"], request=Request(devices="0", form=form), machine=machine)
    assert ("mkdir -p build/out data " in capsys.readouterr().err) is (form != "k8s")
    for name in ("build/out", "data"):
        (commands.ROOT / name).mkdir(parents=True)
    commands.run(CANN, ["true"], request=Request(devices="0", form=form), machine=machine)
    assert "mkdir" not in capsys.readouterr().err


def test_without_an_engine_there_is_no_line_to_print(engine: FakeEngine, machine: Machine) -> None:
    with pytest.raises(UsageError, match="--print shows what a container engine is given") as error:
        commands.run(Choices(engine="none"), ["true"], request=Request(form="docker"), machine=machine)
    assert error.value.next_command == "the same without --engine"
