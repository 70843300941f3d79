"""The .run file itself: equal bytes from equal input, damage is noticed, the archive options work."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import MAKE_RUN, run

Make = Callable[..., Path]


def build(tree: Path, out: Path, umask: int = 0o022, **variables: object) -> str:
    arguments = [
        "--tree",
        tree,
        "--vendor",
        "mxrec_demo",
        "--package",
        "mxrec_opp_demo",
        "--version",
        "1.0",
        "--out",
        out,
    ]
    result = run(MAKE_RUN, *arguments, umask=umask, **variables)
    assert result.code == 0, result.err
    return hashlib.sha256(out.read_bytes()).hexdigest()


def test_equal_input_gives_equal_bytes(make_tree: Make, tmp_path: Path) -> None:
    first = build(make_tree(), tmp_path / "first.run")
    other = make_tree(name="another place")
    for path in other.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (1, time.time() - 1e6))
            path.chmod(0o700)
    (tmp_path / "tmp dir").mkdir()
    assert (
        build(other, tmp_path / "sub dir" / "second.run", umask=0o077, TMPDIR=tmp_path / "tmp dir", TZ="Asia/Tokyo")
        == first
    )
    assert list((tmp_path / "tmp dir").iterdir()) == []
    assert (
        build(make_tree(changes={"version.info": b"custom_opp_compiler_version=2\n"}, name="c"), tmp_path / "c.run")
        != first
    )


def test_the_time_of_packing_is_not_in_the_bytes(make_tree: Make, tmp_path: Path) -> None:
    build(make_tree(), tmp_path / "a.run")
    content = (tmp_path / "a.run").read_bytes()
    start = content.index(b"\x1f\x8b\x08")  # a gzip member; its modification time follows the flags
    assert content[start + 4 : start + 8] == bytes(4)


# makeself before 2.4.5, as openEuler has it: it knows no format, and tar gets what --tar-extra says.
OLDER = r"""#!/bin/bash
words=()
while (($#)); do
    case $1 in
        --help) "REAL" --help 2>&1 | grep -v -e --tar-format; exit 1 ;;
        --tar-format) echo "Unrecognized flag : $1"; exit 1 ;;
        --tar-extra)
            [[ $2 =~ --format=([a-z]+) ]] && words+=(--tar-format "${BASH_REMATCH[1]}")
            words+=("$1" "${2/"${BASH_REMATCH[0]}"/}")
            shift 2
            ;;
        *) words+=("$1"); shift ;;
    esac
done
exec "REAL" "${words[@]}"
"""


def test_an_older_makeself_makes_the_same_archive(make_tree: Make, tmp_path: Path) -> None:
    real = shutil.which("makeself")
    assert real
    place = tmp_path / "older/makeself"
    place.parent.mkdir()
    place.write_text(OLDER.replace("REAL", real))
    place.chmod(0o755)
    tree, path = make_tree(), f"{place.parent}:{os.environ['PATH']}"
    assert run("makeself", "--tar-format", "posix", PATH=path).code == 1
    assert build(tree, tmp_path / "older.run", PATH=path) == build(tree, tmp_path / "newer.run")


def test_the_manifest_names_every_file_with_its_hash(make_package: Make, opp: Path) -> None:
    assert run(make_package(), ASCEND_OPP_PATH=opp).code == 0
    vendor = opp / "vendors/mxrec_demo"
    assert run("sha256sum", "--check", "--strict", "--quiet", "manifest.sha256", cwd=vendor).code == 0
    listed = {line.split("  ", 1)[1] for line in (vendor / "manifest.sha256").read_text().splitlines()}
    files = {p.relative_to(vendor).as_posix() for p in vendor.rglob("*") if p.is_file() and not p.is_symlink()}
    installed = {"manifest.sha256", "scripts/uninstall.sh", "scripts/vendors.sh"}
    assert listed == files - installed


def test_no_trace_of_the_building_machine(make_tree: Make, tmp_path: Path) -> None:
    build(make_tree(), tmp_path / "a.run")
    assert str(tmp_path).encode() not in (tmp_path / "a.run").read_bytes()


def test_vendor_name_reaches_every_script(make_package: Make, tmp_path: Path) -> None:
    assert run(make_package(), "--noexec", "--target", tmp_path / "x").code == 0
    for script in ("install.sh", "upgrade.sh", "uninstall.sh", "help.info"):
        text = (tmp_path / "x" / script).read_text()
        assert "mxrec_demo" in text and "@VENDOR@" not in text and "customize" not in text


@pytest.mark.parametrize("vendor", ["customize", "a-b", "a b", "../x", "a.b"])
def test_vendor_names_that_cannot_work_are_refused(make_tree: Make, tmp_path: Path, vendor: str) -> None:
    result = run(
        MAKE_RUN,
        "--tree",
        make_tree(),
        "--vendor",
        vendor,
        "--package",
        "p",
        "--version",
        "1",
        "--out",
        tmp_path / "o.run",
    )
    assert result.code == 1 and "--vendor" in result.err
    assert not (tmp_path / "o.run").exists()


def test_missing_tree_and_missing_options_are_named(make_tree: Make, tmp_path: Path) -> None:
    assert "--out is missing" in run(MAKE_RUN, "--tree", "t", "--vendor", "v", "--package", "p", "--version", "1").err
    assert "unknown option" in run(MAKE_RUN, "--frob", "x").err
    result = run(
        MAKE_RUN,
        "--tree",
        make_tree(),
        "--vendor",
        "mxrec_no",
        "--package",
        "p",
        "--version",
        "1",
        "--out",
        tmp_path / "o",
    )
    assert "build the operator first" in result.err


@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_a_damaged_file_installs_nothing(make_package: Make, opp: Path, damage: str) -> None:
    package = make_package()
    content = bytearray(package.read_bytes())
    if damage == "flip":
        content[-100] ^= 1
    else:
        del content[-100:]
    package.write_bytes(content)
    assert run(package, "--check").code == 1
    result = run(package, "--quiet", ASCEND_OPP_PATH=opp)
    assert result.code == 1 and "fetch it again" in result.err
    assert list(opp.iterdir()) == []


def test_archive_options(make_package: Make, tmp_path: Path) -> None:
    package = make_package()
    assert run(package, "--check").code == 0
    assert "op_api/lib/libcust_opapi.so" in run(package, "--list").out
    assert "mxrec_opp_demo version:0.2.0" in run(package, "--info").out
    assert "--install-for-all" in run(package, "--help").out
    assert run(package, "--version").out == "mxrec_opp_demo 0.2.0\n"
    assert run(package, "--noexec", "--target", tmp_path / "t").code == 0
    assert (tmp_path / "t/packages/vendors/mxrec_demo/version.info").read_text().splitlines() == [
        "custom_opp_compiler_version=twin-0.1.0",
        "package=mxrec_opp_demo",
        "package_version=0.2.0",
        "socs=ascend910b",
    ]


def test_it_leaves_nothing_in_the_temporary_directory(make_package: Make, opp: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp with space"
    temporary.mkdir()
    assert run(make_package(), ASCEND_OPP_PATH=opp, TMPDIR=temporary).code == 0
    assert run(make_package(version="2"), "--frob", TMPDIR=temporary).code == 1
    assert list(temporary.iterdir()) == []
