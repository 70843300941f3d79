"""make_bundle.sh: several packages in one, for one SoC; all of them are installed or none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import MAKE_RUN, OPAPI, OPMASTER, Result, run

Make = Callable[..., Path]
MAKE_BUNDLE = MAKE_RUN.with_name("make_bundle.sh")
TBE = "op_impl/ai_core/tbe"


def config(soc: str) -> dict[str, bytes]:
    info = json.dumps({"Demo": {"soc": soc}}).encode()
    return {
        f"{TBE}/config/{soc}/aic-{soc}-ops-info.json": info,
        f"{TBE}/kernel/{soc}/demo/Demo_0.o": soc.encode(),
        f"{TBE}/kernel/config/{soc}/binary_info_config.json": info,
    }


BOTH = {**config("ascend910b"), **config("ascend910_93")}


def bundle(out: Path, *arguments: object, version: str = "1.0") -> Result:
    return run(MAKE_BUNDLE, "--package", "mxrec_opp_all", "--version", version, "--out", out, *arguments)


@pytest.fixture
def packages(make_package: Make) -> list[Path]:
    return [make_package(f"mxrec_{name}", changes=BOTH) for name in ("one", "two", "three")]


def priority(opp: Path) -> str:
    return (opp / "vendors/config.ini").read_text().strip()


def test_every_vendor_is_installed_removed_and_listed(packages: list[Path], opp: Path, tmp_path: Path) -> None:
    out = tmp_path / "a bundle.run"
    assert bundle(out, *packages).code == 0
    result = run(out, ASCEND_OPP_PATH=opp)
    assert (result.code, result.last) == (0, "SUCCESS"), result.err
    assert priority(opp) == "load_priority=mxrec_one,mxrec_three,mxrec_two"
    for name in ("one", "two", "three"):
        vendor = opp / f"vendors/mxrec_{name}"
        assert (vendor / OPAPI).is_file()
        assert f"package=mxrec_opp_{name}\n" in (vendor / "version.info").read_text()
        assert run("sha256sum", "--check", "--quiet", "manifest.sha256", cwd=vendor).code == 0
    assert run(opp / "vendors/mxrec_two/scripts/uninstall.sh").code == 0
    assert priority(opp) == "load_priority=mxrec_one,mxrec_three"
    removed = run(out, "--uninstall", "--quiet", ASCEND_OPP_PATH=opp)
    assert (removed.code, removed.out) == (0, "SUCCESS\n")
    assert list((opp / "vendors").iterdir()) == []


def test_a_single_package_replaces_its_part(
    packages: list[Path], make_package: Make, opp: Path, tmp_path: Path
) -> None:
    assert bundle(tmp_path / "b.run", *packages).code == 0
    assert run(tmp_path / "b.run", ASCEND_OPP_PATH=opp).code == 0
    newer = run(make_package("mxrec_two", version="0.3.0"), ASCEND_OPP_PATH=opp)
    assert newer.code == 0 and "upgrading mxrec_opp_two from 0.2.0 to 0.3.0" in newer.out
    again = run(tmp_path / "b.run", ASCEND_OPP_PATH=opp)
    assert "downgrading mxrec_opp_two from 0.3.0 to 0.2.0" in again.out
    assert "reinstalling mxrec_opp_one 0.2.0" in again.out


def test_one_soc_leaves_the_others_out(packages: list[Path], opp: Path, tmp_path: Path) -> None:
    out = tmp_path / "b.run"
    done = bundle(out, "--soc", "ascend910_93", *packages)
    assert done.code == 0, done.err
    assert run(out, ASCEND_OPP_PATH=opp).code == 0
    tbe = opp / "vendors/mxrec_one" / TBE
    assert [path.name for path in (tbe / "config").iterdir()] == ["ascend910_93"]
    assert sorted(path.name for path in (tbe / "kernel").iterdir()) == ["ascend910_93", "config"]
    assert [path.name for path in (tbe / "kernel/config").iterdir()] == ["ascend910_93"]
    assert (tbe / "kernel/ascend910_93/demo/Demo_0.o").read_text() == "ascend910_93"
    assert "socs=ascend910_93\n" in (opp / "vendors/mxrec_one/version.info").read_text()
    assert run("sha256sum", "--check", "--quiet", "manifest.sha256", cwd=opp / "vendors/mxrec_one").code == 0


def test_a_soc_that_a_package_lacks_is_refused(packages: list[Path], tmp_path: Path) -> None:
    result = bundle(tmp_path / "x.run", "--soc", "ascend310p", *packages)
    assert result.code == 1 and "not for ascend310p, but for ascend910_93,ascend910b" in result.err
    assert not (tmp_path / "x.run").exists()


def test_equal_packages_give_equal_bytes(packages: list[Path], tmp_path: Path) -> None:
    for name in ("a.run", "b.run"):
        assert bundle(tmp_path / name, *packages).code == 0
    assert (tmp_path / "a.run").read_bytes() == (tmp_path / "b.run").read_bytes()


def test_one_vendor_twice_and_nothing_are_refused(packages: list[Path], tmp_path: Path) -> None:
    assert "hold the vendor mxrec_one" in bundle(tmp_path / "x.run", packages[0], packages[0]).err
    assert "no package" in bundle(tmp_path / "x.run").err
    assert "is not there" in bundle(tmp_path / "x.run", tmp_path / "gone.run").err


def test_a_fault_in_one_vendor_installs_none(
    packages: list[Path], make_package: Make, opp: Path, tmp_path: Path
) -> None:
    broken = make_package("mxrec_broken", changes={OPMASTER: None})
    assert bundle(tmp_path / "b.run", *packages, broken).code == 0
    result = run(tmp_path / "b.run", ASCEND_OPP_PATH=opp)
    assert result.code == 1 and not (opp / "vendors").exists()


def test_a_failure_at_the_last_step_brings_every_old_vendor_back(
    packages: list[Path], make_package: Make, opp: Path, tmp_path: Path
) -> None:
    assert run(make_package("mxrec_one", version="0.1.0"), ASCEND_OPP_PATH=opp).code == 0
    assert bundle(tmp_path / "b.run", *packages).code == 0
    config_ini = opp / "vendors/config.ini"
    config_ini.unlink()
    config_ini.mkdir()
    (config_ini / "in the way").touch()
    assert run(tmp_path / "b.run", ASCEND_OPP_PATH=opp).code == 1
    assert sorted(path.name for path in (opp / "vendors").iterdir()) == ["config.ini", "mxrec_one"]
    assert "package_version=0.1.0" in (opp / "vendors/mxrec_one/version.info").read_text()
