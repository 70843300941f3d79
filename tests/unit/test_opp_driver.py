"""Libraries that need the toolkit's, which need the driver's: with a driver, with stubs of one, with neither."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from opp_tree import OPAPI, make_vendor, set_priority, write_manifest

from grstack.opp.search import Environment, candidates
from grstack.opp.verify import verify

ARCH = platform.machine()
STUBS = (
    "runtime/lib64/stub",
    f"runtime/lib64/stub/linux/{ARCH}",
    f"{ARCH}-linux/devlib",
    f"{ARCH}-linux/devlib/linux/{ARCH}",
)
OPERATOR = "int aclnnAddGetWorkspaceSize(void) { return 0; } int rtOpen(void); int aclnnAdd(void) { return rtOpen(); }"


def link(output: Path, text: str, *needed: Path) -> Path:
    """A shared library that needs others, which it knows by name alone."""
    output.parent.mkdir(parents=True, exist_ok=True)
    options = ["-shared", "-fPIC", "-nostdlib", f"-Wl,-soname,{output.name}", "-Wl,--allow-shlib-undefined"]
    libraries = [word for path in needed for word in (f"-L{path.parent}", f"-l:{path.name}")]
    subprocess.run(
        ["cc", "-x", "c", "-", *options, "-o", str(output), "-x", "none", *libraries], input=text.encode(), check=True
    )
    return output


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    return link(tmp_path / "driver/libascend_hal.so", "int drvOpen(void) { return 1; }")


@pytest.fixture
def environment(tmp_path: Path, driver: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """One vendor, and a toolkit without stubs; LD_LIBRARY_PATH names nothing."""
    toolkit, opp = tmp_path / "a toolkit", tmp_path / "opp"
    runtime = link(toolkit / "lib64/libruntime.so", "int drvOpen(void); int rtOpen(void) { return drvOpen(); }", driver)
    place = make_vendor(opp, "one", "Add")
    link(place / OPAPI, OPERATOR, runtime)
    write_manifest(place)
    set_priority(opp, "one")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    return Environment(opp=str(opp), toolkit=str(toolkit), user=os.geteuid())


def found(environment: Environment) -> list[tuple[str, str]]:
    return [(p.severity, p.message) for p in verify(environment, candidates(environment))]


def with_stub(environment: Environment, library: Path, folder: str = STUBS[0]) -> None:
    stub = Path(environment.toolkit) / folder / library.name
    stub.parent.mkdir(parents=True)
    shutil.copy(library, stub)


def test_without_a_driver_and_without_stubs_its_library_is_missing(environment: Environment) -> None:
    said = f"libcust_opapi.so needs libascend_hal.so, not found with {environment.toolkit}"
    assert found(environment) == [("error", said)]


@pytest.mark.parametrize("folder", STUBS)
def test_what_the_toolkits_stubs_alone_have_is_said_as_such(
    environment: Environment, driver: Path, folder: str
) -> None:
    with_stub(environment, driver, folder)
    said = "libcust_opapi.so was loaded with the toolkit's stubs of libascend_hal.so"
    assert found(environment) == [("note", said)]


def test_with_a_driver_nothing_is_to_be_said(
    environment: Environment, driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver.parent))
    assert found(environment) == []
    with_stub(environment, link(driver.parent.parent / "a stub/libascend_hal.so", "int drvNothing(void);"))
    assert found(environment) == []


def test_no_stub_hides_that_the_driver_is_too_old(
    environment: Environment, driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_stub(environment, driver)
    old = link(tmp_path / "old/libascend_hal.so", "int drvOther(void) { return 1; }")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(old.parent))
    [(severity, said)] = found(environment)
    assert severity == "error" and "cannot be loaded" in said and "drvOpen" in said


def test_no_stub_hides_that_the_toolkit_lacks_a_library_where_a_driver_is(
    environment: Environment, driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Path(environment.toolkit) / "lib64/libruntime.so"
    with_stub(environment, runtime)
    runtime.unlink()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver.parent))
    [(severity, said)] = found(environment)
    assert severity == "error" and "needs libruntime.so, not found with" in said
