"""Builds each operator once for the twin and gives the tests a function that calls it.

GRSTACK_INSTALLED_OPERATORS=1: the installed ones are called instead. `inv accept` does so on real devices, and the
gate, whose image has just built them of these sources.
TWIN_LIB64 names the twin's libraries; in the image they are those of ASCEND_HOME_PATH.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

OPERATORS = Path(__file__).resolve().parent
sys.path.insert(0, str(OPERATORS / "common" / "tests"))


def lib64() -> Path | None:
    if "TWIN_LIB64" in os.environ:
        return Path(os.environ["TWIN_LIB64"])
    home = os.environ.get("ASCEND_HOME_PATH")
    return Path(home) / "lib64" if home else None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "twin: needs the built twin (TWIN_LIB64 or the image)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if OPERATORS in item.path.parents:
            item.add_marker(pytest.mark.twin)


def acl_include() -> Path:
    """The ACL headers: the toolkit's, else those in the torch_npu wheel."""
    home = os.environ.get("ASCEND_HOME_PATH")
    if home and (Path(home) / "include/acl/acl.h").is_file():
        return Path(home) / "include"
    spec = importlib.util.find_spec("torch_npu")
    assert spec is not None and spec.origin is not None, "no ACL headers: neither a toolkit nor torch_npu is installed"
    return Path(spec.origin).parent / "include/third_party/acl/inc"


def opbuild() -> Path:
    beside = OPERATORS.parent.parent / "twin/opbuild/opbuild.py"
    return beside if beside.is_file() else Path(os.environ["ASCEND_HOME_PATH"]) / "tools/opbuild/opbuild.py"


@pytest.fixture(scope="session")
def host():
    libraries = lib64()
    if libraries is None:
        pytest.fail("these tests need the built twin: run them in the image, or set TWIN_LIB64")
    os.environ["LD_LIBRARY_PATH"] = f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    import aclnn_host

    return aclnn_host.Host(libraries)


def installed(operator: str) -> Path:
    """The vendor directory of the image's own installation: on a machine with NPUs, what the toolkit has built."""
    custom = [Path(entry) for entry in os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":") if entry]
    place = Path(os.environ["ASCEND_OPP_PATH"]) / "vendors" / f"mxrec_{operator}"
    place = next((entry for entry in custom if entry.name == place.name), place)
    assert place.is_dir(), f"{place}: not installed; type: inv opp list"
    return place


@pytest.fixture(scope="session")
def build(host, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """build(snake name) -> the operator's vendor directory."""
    built: dict[str, Path] = {}
    folder = tmp_path_factory.mktemp("operators")
    home = folder / "home"
    home.mkdir()
    (home / "lib64").symlink_to(lib64())
    builder = [sys.executable, str(opbuild()), "--ascend-home", str(home), "--include", str(acl_include())]
    cores = folder / "cores.o"

    def run(operator: str) -> Path:
        if os.environ.get("GRSTACK_INSTALLED_OPERATORS"):
            return installed(operator)
        if operator not in built:
            if not cores.exists():
                subprocess.run([*builder, "--make-cores", str(cores)], check=True)
            vendor = f"mxrec_{operator}"
            command = [*builder, "--op", str(OPERATORS / operator), "--out", str(folder / operator)]
            subprocess.run([*command, "--vendor", vendor, "--cores", str(cores)], check=True)
            built[operator] = folder / operator / "packages/vendors" / vendor
        return built[operator]

    return run


@pytest.fixture
def call(host, build) -> Callable[..., None]:
    """call(snake name, operator type, *arguments)."""

    def run(operator: str, op_type: str, *arguments) -> None:
        host.call(build(operator) / "op_api/lib/libcust_opapi.so", op_type, *arguments)

    return run


# Orders and machine sizes that must not change a result.
@pytest.fixture(params=[(None, 48), (1, 1), (2, 2), (3, 20), (4, 40)], ids=lambda p: f"seed{p[0]}-cores{p[1]}")
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    seed, cores = request.param
    monkeypatch.setenv("TWIN_CORES", str(cores))
    if seed is not None:
        monkeypatch.setenv("TWIN_SEED", str(seed))
    yield
