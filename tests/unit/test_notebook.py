"""`inv notebook` and `inv ssh`: what is refused before an engine is asked, and what the container is given."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from grstack.errors import EngineError, UsageError
from grstack.launch.access import Access, SecurityContext
from grstack.launch.daemon import Daemon
from grstack.notebook import command
from grstack.notebook.container import Folders, Owner, run_argv
from grstack.paths import Paths
from grstack.session import Session

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docker/notebook"
PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ me@here\n"
OWNER = Owner(uid=1234, gid=4321)


@pytest.fixture(autouse=True)
def _beside_each_other(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files of docker/notebook import each other by name, as in the image; no other test finds them."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for file in FOLDER.glob("*.py"):
        sys.modules.pop(file.stem, None)


def load(name: str) -> ModuleType:
    """A file of docker/notebook, which is no package."""
    spec = importlib.util.spec_from_file_location(f"notebook_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def argv(tmp_path: Path, service: str = "lab", context: SecurityContext | None = None) -> list[str]:
    folders = Folders.of(Paths(root=tmp_path, cache=tmp_path))
    return run_argv(
        Path("docker"),
        image="IMAGE",
        service=service,
        name="NAME",
        published="127.0.0.1:9000",
        owner=OWNER,
        folders=folders,
        context=context or SecurityContext(),
        env={"GRSTACK_URL": "http://127.0.0.1:9000"},
        from_environment=("JUPYTER_TOKEN",),
    )


# What is open ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("service", "port"), [("lab", 8888), ("ssh", 2222)])
def test_the_container_has_one_port_no_capability_and_no_root(tmp_path: Path, service: str, port: int) -> None:
    words = argv(tmp_path, service)
    assert [word for word in words if word.startswith("--publish")] == [f"--publish=127.0.0.1:9000:{port}"]
    assert not [word for word in words if word.startswith(("--network", "--privileged", "--pid", "--ipc"))]
    assert {"--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=1234:4321"} <= set(words)
    assert words[-1] == service


@pytest.mark.parametrize("service", ["lab", "ssh"])
def test_a_file_of_one_s_own_has_a_place_for_its_shards(tmp_path: Path, service: str) -> None:
    """/data is read-only there."""
    words = argv(tmp_path, service)
    assert "--env=GRSTACK_SHARDS=/out/shards" in words
    volumes = [word.partition(":")[2] for word in words if word.startswith("--volume=")]
    assert {"/out", "/data:ro"} <= set(volumes)


def test_devices_are_handed_on_and_their_user_is_not(tmp_path: Path) -> None:
    access = Access(kind="npu", flavour="docker", ids=(0,), nodes=("/dev/davinci0",), user="0:0", groups=(1000,))
    words = argv(tmp_path, context=access)
    assert [word for word in words if word.startswith("--user")] == ["--user=1234:4321"]
    assert {"--device=/dev/davinci0", "--group-add=1000"} <= set(words)


def test_where_selinux_is_enforced_its_mounts_can_be_read(tmp_path: Path) -> None:
    words = argv(tmp_path, context=SecurityContext(selinux=True))
    assert "--security-opt=label=disable" in words and "--user=1234:4321" in words


def test_rootless_docker_serves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only root of such a container may write to /out."""
    engine = SimpleNamespace(daemon=Daemon(rootless=True))
    monkeypatch.setattr(command, "NotebookImage", lambda s: SimpleNamespace(engine=engine))
    session = cast(Session, SimpleNamespace(console=Console(file=io.StringIO())))
    with pytest.raises(EngineError, match="rootless Docker: nothing is served as root") as error:
        command.notebook(session, None, port=9000, address="127.0.0.1", token="x" * 20)
    assert error.value.next_command.startswith("docker context use default")


def test_the_token_is_named_and_not_said(tmp_path: Path) -> None:
    assert "--env=JUPYTER_TOKEN" in argv(tmp_path)


def test_keys_are_seen_by_ssh_alone_and_the_rest_is_read_only_but_for_out(tmp_path: Path) -> None:
    lab, ssh = ([word for word in argv(tmp_path, kind) if word.startswith("--volume")] for kind in ("lab", "ssh"))
    assert set(ssh) - set(lab) == {f"--volume={tmp_path}/build/notebook/ssh:/ssh"}
    assert [word for word in lab if not word.endswith(":ro")] == [f"--volume={tmp_path}/build/out:/out"]


def test_one_account_has_a_shell() -> None:
    lines = [line.split(":") for line in OWNER.passwd.splitlines()]
    assert [(line[0], line[2], line[3]) for line in lines if line[6] == "/bin/bash"] == [("grstack", "1234", "4321")]
    assert all(len(line) == 7 for line in lines)


def test_where_root_starts_it_another_user_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(os, "getgid", lambda: 0)
    given: list[tuple[Path, int, int]] = []
    monkeypatch.setattr(os, "chown", lambda path, uid, gid: given.append((Path(path), uid, gid)))
    owner, folders = Owner.here(), Folders.of(Paths(root=tmp_path, cache=tmp_path))
    folders.make(owner)
    assert (owner.uid, owner.gid) == (1000, 1000)
    assert given == [(folders.out, 1000, 1000), (folders.keys, 1000, 1000)]
    assert folders.keys.stat().st_mode & 0o077 == 0


# What is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "port", "text"),
    [
        ("localhost", "8888", "--address localhost: 127.0.0.1"),
        ("127.0.0.1", "0", "--port 0: a number from 1"),
        ("127.0.0.1", "65536", "--port 65536"),
        ("127.0.0.1", "ssh", "--port ssh"),
        ("192.0.2.1", "8888", "--port 8888: Cannot assign requested address"),
    ],
)
def test_a_place_that_cannot_be(address: str, port: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    with pytest.raises(UsageError, match=text):
        command.check_place(address, port)


def test_a_port_that_is_taken_says_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"--port {port}: Address already in use") as refused:
            command.check_place("127.0.0.1", str(port))
    assert refused.value.next_command == f"the same with --port {port + 1}"
    assert command.check_place("127.0.0.1", str(port)) == port


def test_a_token_is_long_and_new_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUPYTER_TOKEN", raising=False)
    first, second = command.check_token(), command.check_token()
    assert first != second and len(first) == 48
    monkeypatch.setenv("JUPYTER_TOKEN", "of my own choosing")
    assert command.check_token() == "of my own choosing"
    monkeypatch.setenv("JUPYTER_TOKEN", "secret")
    with pytest.raises(UsageError, match="JUPYTER_TOKEN has 6 characters, fewer than 16"):
        command.check_token()
    assert command.SHORTEST == load("lab").SHORTEST


def test_the_user_s_public_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UsageError, match="has no public key") as refused:
        command.public_key("")
    assert refused.value.next_command.startswith("ssh-keygen -t ed25519")
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id_rsa.pub").write_text("ssh-rsa AAAA me")
    assert command.public_key("") == "ssh-rsa AAAA me\n"
    (tmp_path / ".ssh/id_ed25519.pub").write_text(PUBLIC)
    assert command.public_key("") == PUBLIC
    private = tmp_path / "private"
    private.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    with pytest.raises(UsageError, match="is the private key, which stays where it is"):
        command.public_key(str(private))
    private.write_text("nothing of the kind\n")
    with pytest.raises(UsageError, match="is no public key of OpenSSH"):
        command.public_key(str(private))
    with pytest.raises(UsageError, match="No such file"):
        command.public_key(str(tmp_path / "none.pub"))


# What runs in the container ----------------------------------------------------------------------------------------


def test_sshd_takes_keys_alone_and_hands_the_environment_on() -> None:
    text = load("ssh").config("me", Path("/ssh/a"), Path("/ssh/b"), {"PATH": "/a:/b", "X": 'a "b"', "HOME": "/root"})
    lines = dict(line.split(" ", 1) for line in text.splitlines())
    for name in ("PasswordAuthentication", "KbdInteractiveAuthentication", "PermitRootLogin", "UsePAM"):
        assert lines[name] == "no"
    assert (lines["AuthenticationMethods"], lines["AllowUsers"]) == ("publickey", "me")
    assert lines["SetEnv"] == '"PATH=/a:/b" "X=a \\"b\\""'


LATE_SERVER = """#!{python}
import re, socket, sys, time
port = int(re.search(r"Port (\\d+)", open(sys.argv[-1]).read())[1])
time.sleep(1)
with socket.create_server(("127.0.0.1", port)) as listening:
    while True:
        with listening.accept()[0] as connection:
            connection.sendall(b"SSH-2.0-late")
"""
SERVED = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import health, ssh
place = pathlib.Path(sys.argv[2])
ssh.KEYS, ssh.CONFIG, ssh.SERVER, health.PORTS["ssh"] = place, place / "config", str(place / "sshd"), int(sys.argv[3])
sys.exit(ssh.serve())
"""


def test_ssh_is_ready_when_its_port_answers_and_ends_when_it_is_told(tmp_path: Path) -> None:
    """sshd of a busy machine opens its port late: who believes the line must not be turned away."""
    for name, text in {"authorized_keys": PUBLIC, "ssh_host_ed25519_key": "", "ssh_host_ed25519_key.pub": ""}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "sshd").write_text(LATE_SERVER.format(python=sys.executable))
    (tmp_path / "sshd").chmod(0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [sys.executable, "-c", SERVED, str(FOLDER), str(tmp_path), str(port)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(f"ready: port {port} lets ")
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                assert connection.recv(4) == b"SSH-"
        finally:
            process.terminate()
    assert process.returncode == 0


def test_a_host_s_key_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """/ssh belongs to the host's user, who is not always the container's."""
    (tmp_path / "authorized_keys").write_text(PUBLIC)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ssh-keygen").write_text("#!/bin/sh\necho 'Saving key failed: Permission denied' >&2\nexit 1\n")
    (programs / "ssh-keygen").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    ssh = load("ssh")
    monkeypatch.setattr(ssh, "KEYS", tmp_path)
    assert ssh.serve() == 1
    told = capsys.readouterr().err
    assert f"cannot be made in {tmp_path}: Saving key failed: Permission denied" in told
    assert f"next:  mount a folder that user {os.getuid()} may write to on {tmp_path}" in told


def test_looking_whether_ssh_listens_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    health = load("health")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        monkeypatch.setitem(health.PORTS, "ssh", server.getsockname()[1])
        assert not health.ssh(), "bound, but not listening"
        server.listen()
        server.settimeout(0.2)
        assert health.ssh()
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_folder_that_cannot_be_written_to_is_refused_also_with_all_examples_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = load("lab")
    monkeypatch.setattr(lab, "HOME", FOLDER)
    monkeypatch.setenv("GRSTACK_NOTEBOOKS", str(tmp_path))
    lab.bring_examples(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in (FOLDER / "examples").iterdir()}
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    assert lab.serve() == 1
    assert f"error: notebooks go to {tmp_path}: Permission denied" in capsys.readouterr().err


def test_a_server_that_ends_is_not_waited_for() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        assert not load("health").wait("ssh", process)


def test_nothing_is_served_as_root(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    start = load("start")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert start.main(["lab"]) == 1
    assert "nothing is served as root" in capsys.readouterr().err
    assert start.main(["telnet"]) == 2


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "device: cpu: this container was given no GPU"),
        ((12080, 2, 0), "device: 2 GPUs, driver for CUDA 12.8"),
        ((13000, 1, 0), "device: 1 GPU, driver for CUDA 13.0"),
        ((12020, 1, 0), "device: 1 GPU, driver for CUDA 12.2; works with this image's CUDA 12.8 (same major release)"),
        (
            (11080, 1, 0),
            "device: 1 GPU, driver for CUDA 11.8: too old for this image's CUDA 12.8, PyTorch will not use it",
        ),
        ((12080, 0, 100), "device: cpu: the driver is there and shows no GPU"),
        ((12080, 0, 803), "device: cpu: the driver does not start (cuInit says 803)"),
    ],
)
def test_the_driver_and_the_image_s_cuda(found: tuple[int, int, int] | None, said: str) -> None:
    lines = load("hardware").gpus(found, (12, 8))
    assert lines[0] == said
    works = found is not None and found[2] == 0 and found[1] > 0 and found[0] >= 12000
    assert (len(lines) == 1) == works and all(line.startswith("  next:  ") for line in lines[1:])


def test_the_example_has_no_output_and_ends_with_what_the_test_waits_for() -> None:
    notebook = json.loads((FOLDER / "examples/train-hstu.ipynb").read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert "finished: hr@10" in "".join(code[-1]["source"])
