"""The packages, built by the real engine, and an opp directory to install them in."""

from __future__ import annotations

import io
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from grstack import commands
from grstack.choices import Choices
from grstack.engines.find import answers
from grstack.execute import execute
from grstack.session import Session
from tests.integration.opp_packages import OPAPI, PACKAGING, ROOT, Real, run

signal.signal(signal.SIGTERM, signal.default_int_handler)  # inv test ends its jobs so: fixtures remove what they made


@pytest.fixture(scope="session")
def real() -> Real:
    if not answers():
        pytest.fail("these tests need a running engine; type: inv build-image")
    s = Session(ROOT, Choices(), Console(quiet=True))
    execute(s.plan, s.engine, s.paths, s.fetch, s.console, until="packages")
    return Real(s)


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch, real: Real) -> io.StringIO:
    """What the commands print. The shell has sourced the twin's set_env.sh and nothing else."""
    for name in list(os.environ):
        if name.startswith("ASCEND"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(real.twin))
    out = io.StringIO()
    monkeypatch.setattr(commands, "_console", lambda: Console(file=out, width=250, highlight=False))
    return out


@pytest.fixture
def opp(tmp_path: Path) -> Path:
    return tmp_path / "an opp directory"


@pytest.fixture
def repack(real: Real, tmp_path: Path) -> Callable[..., Path]:
    """The real package of an operator under another version or vendor, optionally with another library."""

    def make(
        operator: str, *, version: str = "0.1.0", vendor: str = "", library: bytes | None = None, interface: str = ""
    ) -> Path:
        tree = tmp_path / f"tree {vendor} {version}"
        assert run(["bash", real.package(operator), "--noexec", "--target", tree]).returncode == 0
        own = f"mxrec_{operator}"
        if vendor:
            (tree / "packages/vendors" / own).rename(tree / "packages/vendors" / vendor)
        if library is not None:
            (tree / "packages/vendors" / (vendor or own) / OPAPI).write_bytes(library)
        if interface:
            info = tree / f"packages/vendors/{vendor or own}/version.info"
            info.write_text(re.sub(r"(?m)^interface=.*$", f"interface={interface}", info.read_text()))
        out = tmp_path / f"packages to install/{vendor or own}-{version}.run"
        package = vendor or f"mxrec_opp_{operator}"
        argv = ["bash", PACKAGING / "make_run.sh", "--tree", tree, "--vendor", vendor or own, "--package", package]
        done = run([*argv, "--version", version, "--out", out])
        assert done.returncode == 0, done.stderr
        return out

    return make
