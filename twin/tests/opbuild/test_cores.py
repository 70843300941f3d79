"""Whether an operator takes the cores that were compiled for all, by a stub of g++ that notes what it is to compile."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path

import pytest

OPBUILD = Path(__file__).resolve().parents[2] / "opbuild"
sys.path.insert(0, str(OPBUILD))

import opbuild  # noqa: E402
from operator_build import CORES, Build  # noqa: E402

SOURCES = sorted(CORES.rglob("*.cpp"))


@pytest.fixture
def build(tmp_path: Path) -> Build:
    stub = tmp_path / "stub"
    stub.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    stub.chmod(0o755)
    return Build(
        op=tmp_path / "operators/op",
        out=tmp_path,
        vendor="test",
        socs=["ascend910b"],
        arch="x86_64",
        jobs=2,
        ascend_home=tmp_path,
        include=[tmp_path / "include"],
        link=[],
        version="1",
        work=tmp_path / "work",
        cores=tmp_path / "cores.o",
        cxx=str(stub),
    )


def asked(build: Build) -> list[list[str]]:
    file = build.out / "asked"
    return [shlex.split(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_compiled_ones_are_taken(build: Build) -> None:
    build.cores.touch()
    assert opbuild.core_objects(build) == [build.cores] and asked(build) == []


@pytest.mark.parametrize(
    ("settings", "there", "flag"),
    [
        ({}, False, "-O2"),
        ({"sanitize": "address"}, True, "-fsanitize=address"),
        ({"any_soc": True}, True, "-DTWIN_ANY_SOC"),
    ],
)
def test_else_each_source_is_compiled(build: Build, settings: dict[str, object], there: bool, flag: str) -> None:
    if there:
        build.cores.touch()
    objects = opbuild.core_objects(dataclasses.replace(build, **settings))
    commands = {command[command.index("-c") + 1]: command for command in asked(build)}
    assert len(SOURCES) > 15 and sorted(commands) == list(map(str, SOURCES))
    for source, target in zip(SOURCES, objects, strict=True):
        command = commands[str(source)]
        assert command[command.index("-o") + 1] == str(target)
        assert {flag, f"-I{CORES}", f"-I{build.out}/include"} <= {*command}
