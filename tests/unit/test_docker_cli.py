"""Which docker client is used, and the argument lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from grstack import host, layers
from grstack.engines import docker_cli
from grstack.errors import EngineError


def client(folder: Path, version: str, buildx: bool) -> Path:
    folder.mkdir()
    path = folder / "docker"
    ok = "exit 0" if buildx else "exit 1"
    path.write_text(f'#!/bin/sh\ncase "$1" in buildx) {ok};; *) echo "Docker version {version}, build x";; esac\n')
    path.chmod(0o755)
    return path


def test_a_new_client_without_buildx_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client(tmp_path / "new", "28.2.2", buildx=False)
    old = client(tmp_path / "old", "20.10.24+dfsg1", buildx=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/new:{tmp_path}/old:/usr/bin:/bin")
    assert docker_cli.find_client() == old


def test_a_new_client_with_buildx_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = client(tmp_path / "new", "28.2.2", buildx=True)
    client(tmp_path / "old", "20.10.24", buildx=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/new:{tmp_path}/old:/bin")
    assert docker_cli.find_client() == new


def test_no_usable_client_says_what_was_found_and_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client(tmp_path / "new", "28.2.2", buildx=False)
    monkeypatch.setattr(docker_cli, "clients", lambda: [tmp_path / "new/docker"])
    monkeypatch.setattr(host, "apt_knows", lambda names: [name for name in names if name != "docker-cli"])
    with pytest.raises(EngineError, match=r"28, without buildx") as error:
        docker_cli.find_client()
    assert error.value.next_command == "sudo apt-get install -y docker.io docker-buildx"


def test_proxies_are_named_and_their_values_are_not(tmp_path: Path) -> None:
    argv = docker_cli.build_argv(
        Path("docker"),
        dockerfile=tmp_path,
        context=tmp_path,
        tag="t",
        args={},
        labels={},
        secrets={},
        from_environment=("https_proxy",),
    )
    assert "--build-arg=https_proxy" in argv


def test_build_arguments_carry_no_secret_content(tmp_path: Path) -> None:
    argv = docker_cli.build_argv(
        Path("docker"),
        dockerfile=tmp_path / "Dockerfile",
        context=tmp_path,
        tag="t",
        args={"BASE": "b"},
        labels={"k": "v"},
        secrets={"ca": tmp_path / "ca.crt"},
    )
    assert f"--secret=id=ca,src={tmp_path}/ca.crt" in argv and argv[-1] == str(tmp_path)
    assert "--network=host" in argv and "--build-arg=BASE=b" in argv


def test_each_component_is_a_layer_whose_limit_is_its_recipe_s() -> None:
    text = docker_cli.with_components("FROM x\n# components: here\nCOPY src /src\n", {"small": None, "large": 300})
    lines = text.splitlines()
    assert lines[:2] == ["FROM x", "# components: here"] and lines[-1] == "COPY src /src"
    assert [line.rpartition(" ")[2] for line in lines if line.startswith("RUN ")] == ["small", "large"]
    assert layers.limits(text) == {"RUN sh /opt/grstack/bin/install-component large": 300}


def test_mounts_are_read_only_unless_said_otherwise() -> None:
    argv = docker_cli.run_argv(
        Path("docker"),
        image="i",
        argv=["true"],
        volumes=[(Path("/a b"), "/a", False), (Path("/c"), "/c", True)],
        env={},
        network="none",
    )
    assert "--volume=/a b:/a:ro" in argv and "--volume=/c:/c" in argv and "--network=none" in argv


@pytest.mark.parametrize(("mib", "options"), [(0, []), (1024, ["--memory=1024m", "--memory-swap=1024m"])])
def test_a_limit_of_memory_is_one_of_swap_too(mib: int, options: list[str]) -> None:
    argv = docker_cli.run_argv(
        Path("docker"), image="i", argv=["true"], volumes=[], env={}, network="none", memory_mib=mib
    )
    assert [word for word in argv if word.startswith("--memory")] == options
