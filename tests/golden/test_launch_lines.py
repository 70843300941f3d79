"""One run as command lines and files: with NPUs and GPUs, by Docker and Podman, for compose and Kubernetes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from grstack.engines import docker_cli
from grstack.launch import compose, kubernetes
from grstack.launch.access import Access, Flavour, Kind
from grstack.launch.line import shell_line
from grstack.launch.machine import Machine
from grstack.launch.prepare import prepare
from tests.machines import atlas, docker, gpu_host

ROOT = Path(__file__).resolve().parents[2]
RELEASES: dict[Kind, str] = {"npu": "8.3.RC1", "cuda": "2.8.0"}
IMAGES: dict[Kind, str] = {"npu": "grstack/npu:cann", "cuda": "grstack/cuda:cuda"}
COMMAND = ["bash", "-c", "python -m gr_model.train --config ml-1m --out /out/\"a b\" && echo '$HOME: no: yes'"]
VOLUMES = [(Path("/home/me/my runs"), "/out", True), (Path("/home/me/data"), "/data", False)]

HOSTS: dict[str, tuple[Kind, Callable[[Path], Machine]]] = {
    "npu": ("npu", lambda root: atlas(root, uid=1000)),
    "npu-runtime": ("npu", lambda root: atlas(root, runtime=True)),
    "gpu": ("cuda", lambda root: gpu_host(root, uid=1000)),
    "gpu-cdi": ("cuda", lambda root: gpu_host(root, toolkit=False, cdi=True)),
    "npu-rootless": ("npu", lambda root: rootless(root, atlas(root, uid=1000))),
    "gpu-rootless": ("cuda", lambda root: rootless(root, gpu_host(root, uid=1000, cdi=True))),
}


def rootless(root: Path, machine: Machine) -> Machine:
    docker(root, rootless=True, cdi=True)
    return machine


def given(host: str, root: Path, flavour: Flavour, devices: str = "0,1") -> tuple[Kind, Access]:
    kind, make = HOSTS[host]
    return kind, prepare(
        kind, devices, make(root), release=RELEASES[kind], flavour=flavour, force=flavour == "podman"
    ).access


@pytest.mark.parametrize("flavour", ["docker", "podman"])
@pytest.mark.parametrize("host", HOSTS)
def test_command_line(tmp_path: Path, host: str, flavour: Flavour, snapshot: SnapshotAssertion) -> None:
    kind, access = given(host, tmp_path, flavour)
    words = docker_cli.run_argv(
        Path(flavour), image=IMAGES[kind], argv=COMMAND, volumes=VOLUMES, env={}, network="host", context=access
    )
    assert shell_line(words, IMAGES[kind]) == snapshot


@pytest.mark.parametrize("host", HOSTS)
def test_compose(tmp_path: Path, host: str, snapshot: SnapshotAssertion) -> None:
    kind, access = given(host, tmp_path, "docker")
    text = compose.document(IMAGES[kind], COMMAND, VOLUMES, access)
    service = yaml.safe_load(text)["services"]["grstack"]
    assert [word.replace("$$", "$") for word in service["command"]] == COMMAND
    assert text == snapshot


@pytest.mark.parametrize("host", ["npu", "gpu"])
def test_kubernetes(tmp_path: Path, host: str, snapshot: SnapshotAssertion) -> None:
    kind, access = given(host, tmp_path, "docker")
    text = kubernetes.document(ROOT, IMAGES[kind], COMMAND, access)
    container = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == COMMAND and "command" not in container
    assert text == snapshot
