"""`--print compose` by the Compose Specification's own schema, which refuses keys that it does not know."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from grstack.launch import compose
from grstack.launch.access import Access, Kind, SecurityContext
from grstack.launch.machine import Machine
from grstack.launch.prepare import prepare
from tests.machines import atlas, docker, gpu_host

SCHEMA = Path(__file__).parent / "schemas/compose-spec.json"
COMMAND = ["bash", "-c", "echo $HOME: yes"]
VOLUMES = [(Path("/home/me/my runs"), "/out", True), (Path("/home/me/data"), "/data", False)]


def enforcing(root: Path) -> Machine:
    machine = atlas(root, uid=1000)
    place = root / "sys/fs/selinux/enforce"
    place.parent.mkdir(parents=True)
    place.write_text("1")
    return machine


def rootless(root: Path) -> Machine:
    machine = gpu_host(root, uid=1000, cdi=True)
    docker(root, rootless=True, cdi=True)
    return machine


HOSTS: dict[str, tuple[Kind, Callable[[Path], Machine]]] = {
    "npu": ("npu", lambda root: atlas(root, uid=1000)),
    "npu-runtime": ("npu", lambda root: atlas(root, runtime=True)),
    "npu-selinux": ("npu", enforcing),
    "gpu": ("cuda", lambda root: gpu_host(root, uid=1000)),
    "gpu-cdi": ("cuda", lambda root: gpu_host(root, toolkit=False, cdi=True)),
    "gpu-rootless": ("cuda", rootless),
}


def faults(text: str) -> list[str]:
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(yaml.safe_load(text))]


def given(host: str, root: Path) -> Access:
    kind, make = HOSTS[host]
    return prepare(kind, "0,1", make(root), release="8.3.RC1" if kind == "npu" else "2.8.0").access


def test_the_schema_is_the_published_file() -> None:
    digest = hashlib.sha256(SCHEMA.read_bytes()).hexdigest()
    assert digest == "d549057ebc2925f39f62799eab0db7b9e2c18b35b6c00595199116da3ed10e64"


@pytest.mark.parametrize("shell", [False, True])
@pytest.mark.parametrize("host", HOSTS)
def test_a_run_with_devices(tmp_path: Path, host: str, shell: bool) -> None:
    assert faults(compose.document("grstack/x:y", COMMAND, VOLUMES, given(host, tmp_path), shell=shell)) == []


@pytest.mark.parametrize("context", [SecurityContext(user="7:8"), SecurityContext(user="0:0", selinux=True)])
def test_a_run_without_devices(context: SecurityContext) -> None:
    assert faults(compose.document("grstack/x:y", COMMAND, VOLUMES, context)) == []


def test_groups_of_closed_nodes(tmp_path: Path) -> None:
    closed = replace(given("npu", tmp_path), groups=(4321, 7))
    text = compose.document("grstack/x:y", COMMAND, VOLUMES, closed)
    assert yaml.safe_load(text)["services"]["grstack"]["group_add"] == ["4321", "7"] and faults(text) == []


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"ulimit": {}}, "ulimit"),
        ({"devices": [{"path": "/dev/davinci0"}]}, "devices"),
        ({"deploy": {"resources": {"reservations": {"devices": [{"driver": "nvidia"}]}}}}, "capabilities"),
    ],
)
def test_what_compose_would_refuse_is_seen(tmp_path: Path, damage: dict[str, Any], said: str) -> None:
    document = yaml.safe_load(compose.document("grstack/x:y", COMMAND, VOLUMES, given("npu", tmp_path)))
    document["services"]["grstack"] |= damage
    assert any(said in fault for fault in faults(yaml.safe_dump(document)))
