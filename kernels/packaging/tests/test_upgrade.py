"""upgrade.sh and uninstall.sh against the vendor contract, and what a replacement leaves of a vendor's tree."""

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import OPAPI, priority, run, tree_state

Make = Callable[..., Path]


# p4


def test_uninstall_updates_the_priority_and_removes_the_last_config(make_package: Make, opp: Path) -> None:
    for vendor in ("mxrec_one", "mxrec_two"):
        assert run(make_package(vendor), ASCEND_OPP_PATH=opp).code == 0
    result = run(opp / "vendors/mxrec_two/scripts/uninstall.sh")
    assert (result.code, result.last) == (0, "SUCCESS")
    assert priority(opp) == "load_priority=mxrec_one"
    assert not (opp / "vendors/mxrec_two").exists()
    assert run(opp / "vendors/mxrec_one/scripts/uninstall.sh").code == 0
    assert list((opp / "vendors").iterdir()) == []


def test_uninstall_without_config_exits_0(make_package: Make, tmp_path: Path) -> None:
    assert run(make_package(), f"--install-path={tmp_path / 'x'}").code == 0
    result = run(tmp_path / "x/vendors/mxrec_demo/scripts/uninstall.sh", "--quiet")
    assert (result.code, result.out) == (0, "SUCCESS\n")
    assert not (tmp_path / "x/vendors/mxrec_demo").exists()


def test_the_package_uninstalls_too(make_package: Make, opp: Path) -> None:
    package = make_package()
    missing = run(package, "--uninstall", ASCEND_OPP_PATH=opp)
    assert missing.code == 1 and "not installed" in missing.err
    assert run(package, ASCEND_OPP_PATH=opp).code == 0
    assert run(package, "--uninstall", ASCEND_OPP_PATH=opp).last == "SUCCESS"
    assert not (opp / "vendors/mxrec_demo").exists()


def test_uninstall_refuses_options_and_wrong_places(make_package: Make, opp: Path) -> None:
    package = make_package()
    assert run(package, ASCEND_OPP_PATH=opp).code == 0
    script = opp / "vendors/mxrec_demo/scripts/uninstall.sh"
    assert run(script, "--all").code == 1
    moved = opp / "elsewhere/scripts"
    moved.parent.mkdir()
    assert run("cp", "-R", script.parent, moved).code == 0
    assert run(moved / "uninstall.sh").code == 1
    assert (opp / "vendors/mxrec_demo" / OPAPI).is_file() and moved.is_dir()


# Versions


def test_upgrade_and_downgrade_replace_the_whole_tree(make_package: Make, opp: Path) -> None:
    old = make_package(version="0.9.0", changes={"op_api/include/aclnn_old.h": b"old"})
    new = make_package(version="0.10.0", changes={"op_api/include/aclnn_new.h": b"new"})
    include = opp / "vendors/mxrec_demo/op_api/include"
    assert "downgrading" not in run(old, ASCEND_OPP_PATH=opp).out
    assert "upgrading mxrec_opp_demo from 0.9.0 to 0.10.0" in run(new, "--upgrade", ASCEND_OPP_PATH=opp).out
    assert {path.name for path in include.iterdir()} == {"aclnn_demo.h", "aclnn_new.h"}
    assert "downgrading mxrec_opp_demo from 0.10.0 to 0.9.0" in run(old, ASCEND_OPP_PATH=opp).out
    assert {path.name for path in include.iterdir()} == {"aclnn_demo.h", "aclnn_old.h"}


def test_upgrade_needs_an_installed_vendor(make_package: Make, opp: Path) -> None:
    result = run(make_package(), "--upgrade", ASCEND_OPP_PATH=opp)
    assert result.code == 1 and "--upgrade" in result.err


def test_upgrade_script_asks_nothing(make_package: Make, opp: Path, tmp_path: Path) -> None:
    package = make_package()
    assert run(package, ASCEND_OPP_PATH=opp).code == 0
    assert run(package, "--noexec", "--target", tmp_path / "unpacked").code == 0
    assert run(tmp_path / "unpacked/upgrade.sh", "--quiet", ASCEND_OPP_PATH=opp).out == "SUCCESS\n"


def test_reinstall_gives_the_same_tree(make_package: Make, opp: Path) -> None:
    package = make_package()
    assert run(package, ASCEND_OPP_PATH=opp).code == 0
    first = tree_state(opp)
    assert "reinstalling" in run(package, ASCEND_OPP_PATH=opp).out
    assert tree_state(opp) == first
    assert [path.name for path in (opp / "vendors").iterdir() if path.name.startswith(".")] == []


def test_another_package_of_the_same_vendor_is_not_deleted(make_package: Make, opp: Path) -> None:
    assert run(make_package(package="mxrec_opp_mine"), ASCEND_OPP_PATH=opp).code == 0
    before = tree_state(opp)
    other = make_package(package="mxrec_opp_other")
    refused = run(other, ASCEND_OPP_PATH=opp)
    assert refused.code == 1 and "mxrec_opp_mine" in refused.err
    assert tree_state(opp) == before
    assert run(other, "--force", ASCEND_OPP_PATH=opp).code == 0


# Faults


def test_a_failed_replacement_leaves_the_old_tree(make_package: Make, opp: Path) -> None:
    assert run(make_package(version="1"), ASCEND_OPP_PATH=opp).code == 0
    before = tree_state(opp)
    config = opp / "vendors/config.ini"
    config.unlink()
    config.mkdir()  # the last step, writing load_priority, cannot succeed
    (config / "in the way").touch()
    assert run(make_package(version="2"), ASCEND_OPP_PATH=opp).code == 1
    (config / "in the way").unlink()
    config.rmdir()
    before.pop("vendors/config.ini")
    assert tree_state(opp) == before


def test_leftovers_of_a_killed_installation_are_cleared(make_package: Make, opp: Path) -> None:
    package = make_package()
    assert run(package, ASCEND_OPP_PATH=opp).code == 0
    vendors = opp / "vendors"
    (vendors / "mxrec_demo").rename(vendors / ".mxrec_demo.old.77")  # killed between the two renames
    (vendors / ".mxrec_demo.new.77").mkdir()
    assert "reinstalling" in run(package, ASCEND_OPP_PATH=opp).out
    assert sorted(path.name for path in vendors.iterdir()) == ["config.ini", "mxrec_demo"]


# What others put into a vendor's tree, or beside it

NOTES = ("notes.txt", "op_impl/ai_core/tbe/config/ascend910b/mine.json", "my operator/kernel.o")


def put_notes(tree: Path) -> None:
    for name in NOTES:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("mine")


@pytest.mark.parametrize("action", ["uninstall", "upgrade", "reinstall"])
def test_files_of_others_stay(make_package: Make, opp: Path, action: str) -> None:
    package = make_package(version="1")
    assert run(package, ASCEND_OPP_PATH=opp).code == 0
    tree = opp / "vendors/mxrec_demo"
    put_notes(tree)
    if action == "uninstall":
        result = run(tree / "scripts/uninstall.sh")
        assert sorted(str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()) == sorted(NOTES)
        assert not any(path.is_symlink() for path in tree.rglob("*"))
    else:
        result = run(package if action == "reinstall" else make_package(version="2"), ASCEND_OPP_PATH=opp)
        assert (tree / OPAPI).is_file()
        assert not [path.name for path in tree.parent.iterdir() if ".old" in path.name or ".new" in path.name]
    assert (result.code, result.last) == (0, "SUCCESS"), result.err
    assert "keeps files that are not of the package" in result.err
    assert all((tree / name).read_text() == "mine" for name in NOTES)


def test_an_upgrade_leaves_no_file_of_the_older_package(make_package: Make, opp: Path) -> None:
    assert run(make_package(version="1", changes={"op_api/include/gone.h": b"old"}), ASCEND_OPP_PATH=opp).code == 0
    assert run(make_package(version="2"), ASCEND_OPP_PATH=opp).code == 0
    assert not (opp / "vendors/mxrec_demo/op_api/include/gone.h").exists()


def test_folders_that_only_look_like_leftovers_stay(make_package: Make, opp: Path) -> None:
    vendors = opp / "vendors"
    for name in (".mxrec_demo.old.backup", ".mxrec_demo.new.ideas"):
        (vendors / name).mkdir(parents=True)
        (vendors / name / "mine").write_text("mine")
    for version in ("1", "2"):
        assert run(make_package(version=version), ASCEND_OPP_PATH=opp).code == 0
    assert run(vendors / "mxrec_demo/scripts/uninstall.sh").code == 0
    assert sorted(path.name for path in vendors.iterdir()) == [".mxrec_demo.new.ideas", ".mxrec_demo.old.backup"]


def test_lines_of_others_in_config_ini_outlive_the_last_vendor(make_package: Make, opp: Path) -> None:
    (opp / "vendors").mkdir()
    (opp / "vendors/config.ini").write_text("; mine\n")
    assert run(make_package(), ASCEND_OPP_PATH=opp).code == 0
    assert run(opp / "vendors/mxrec_demo/scripts/uninstall.sh").code == 0
    assert (opp / "vendors/config.ini").read_text() == "; mine\n"


def test_without_its_manifest_a_tree_is_not_removed(make_package: Make, opp: Path) -> None:
    assert run(make_package(), ASCEND_OPP_PATH=opp).code == 0
    tree = opp / "vendors/mxrec_demo"
    (tree / "manifest.sha256").unlink()
    result = run(tree / "scripts/uninstall.sh")
    assert result.code == 1 and "has no manifest.sha256" in result.err
    assert (tree / OPAPI).is_file() and priority(opp) == "load_priority=mxrec_demo"
