"""install.sh, upgrade.sh and uninstall.sh against the vendor contract."""

import hashlib
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import OPAPI, OPMASTER, OPSPROTO, as_nobody, needs_root, nobody_id, run

Make = Callable[..., Path]


def priority(opp: Path) -> str:
    return (opp / "vendors/config.ini").read_text().strip()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def tree_state(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


# p1


def test_first_in_priority_and_others_keep_their_order(make_package: Make, opp: Path) -> None:
    (opp / "vendors").mkdir()
    (opp / "vendors/config.ini").write_text("; ours\nload_priority=alpha,beta,mxrec_demo,gamma\n")
    for _ in range(2):
        result = run(make_package(version=str(_)), ASCEND_OPP_PATH=opp)
        assert (result.code, result.last) == (0, "SUCCESS"), result.err
        assert priority(opp) == "load_priority=mxrec_demo,alpha,beta,gamma\n; ours"


@pytest.mark.parametrize("other", ["mxrec_demoX", "Xmxrec_demo", "mxrec.demo", "mxrec_dem*", ".*", "mxrec_demo.*"])
def test_vendor_names_are_no_patterns(make_package: Make, opp: Path, other: str) -> None:
    (opp / "vendors").mkdir()
    (opp / "vendors/config.ini").write_text(f"load_priority={other}")
    assert run(make_package(), ASCEND_OPP_PATH=opp).code == 0
    assert priority(opp) == f"load_priority=mxrec_demo,{other}"
    assert run(opp / "vendors/mxrec_demo/scripts/uninstall.sh").code == 0
    assert priority(opp) == f"load_priority={other}"


def test_two_vendors_live_side_by_side(make_package: Make, opp: Path) -> None:
    for vendor in ("mxrec_one", "mxrec_two"):
        assert run(make_package(vendor), ASCEND_OPP_PATH=opp).code == 0
    assert priority(opp) == "load_priority=mxrec_two,mxrec_one"
    for vendor in ("mxrec_one", "mxrec_two"):
        assert (opp / "vendors" / vendor / OPAPI).is_file()


def test_installations_at_once_lose_no_vendor(make_package: Make, opp: Path) -> None:
    vendors = [f"mxrec_v{i}" for i in range(6)]
    packages = [make_package(vendor) for vendor in vendors]
    with ThreadPoolExecutor(len(packages)) as pool:
        results = list(pool.map(lambda package: run(package, ASCEND_OPP_PATH=opp), packages))
    assert [result.code for result in results] == [0] * len(vendors)
    assert sorted(priority(opp).removeprefix("load_priority=").split(",")) == vendors


# p2


def test_relative_install_path_is_refused(make_package: Make, tmp_path: Path) -> None:
    result = run(make_package(), "--install-path=here", cwd=tmp_path)
    assert result.code == 1
    assert "absolute" in result.err and "SUCCESS" not in result.out
    assert not (tmp_path / "here").exists()


def test_install_path_is_created_and_has_no_config(make_package: Make, tmp_path: Path) -> None:
    target = tmp_path / "new place" / "below"
    result = run(make_package(), f"--install-path={target}", umask=0o077)
    assert (result.code, result.last) == (0, "SUCCESS")
    vendor = target / "vendors/mxrec_demo"
    assert not (target / "vendors/config.ini").exists()
    assert mode(target) == mode(vendor) == mode(vendor / OPAPI) == 0o750
    assert mode(vendor / "scripts") == mode(vendor / "scripts/uninstall.sh") == 0o550


def test_install_for_all_opens_every_level_under_any_umask(make_package: Make, tmp_path: Path) -> None:
    target = tmp_path / "for all"
    assert run(make_package(), f"--install-path={target}", "--install-for-all", umask=0o077).code == 0
    vendor = target / "vendors/mxrec_demo"
    for path in (target, target / "vendors", vendor, vendor / OPAPI, vendor / "bin", vendor / "bin/set_env.bash"):
        assert mode(path) == 0o755, path
    assert mode(vendor / "scripts") == mode(vendor / "scripts/uninstall.sh") == 0o555


def test_missing_tiling_library_is_refused_unless_forced(make_package: Make, opp: Path) -> None:
    package = make_package(changes={OPMASTER: None})
    refused = run(package, ASCEND_OPP_PATH=opp)
    assert refused.code == 1 and "libcust_opmaster" in refused.err
    assert not (opp / "vendors").exists()
    forced = run(package, "--force", ASCEND_OPP_PATH=opp)
    assert (forced.code, forced.last) == (0, "SUCCESS")
    assert "WARNING" in forced.err


@pytest.mark.parametrize("path", [OPMASTER, OPSPROTO, OPAPI])
def test_library_with_a_missing_symbol_is_refused_by_opening_it(
    make_package: Make, library: Callable[[str], bytes], opp: Path, path: str
) -> None:
    broken = library("int from_another_toolkit(void); int call(void) { return from_another_toolkit(); }\n")
    result = run(make_package(changes={path: broken}), ASCEND_OPP_PATH=opp, ASCEND_HOME_PATH=opp.parent)
    assert result.code == 1
    assert "from_another_toolkit" in result.err and Path(path).name in result.err
    assert not (opp / "vendors").exists()


def test_good_libraries_open(make_package: Make, opp: Path) -> None:
    assert run(make_package(), ASCEND_OPP_PATH=opp, ASCEND_HOME_PATH=opp.parent).code == 0


def test_other_machine_is_refused_without_the_toolkit(make_package: Make, good_library: bytes, opp: Path) -> None:
    other = bytearray(good_library)
    other[18:20] = (0x28).to_bytes(2, "little")  # e_machine: 32-bit ARM
    result = run(make_package(changes={OPAPI: bytes(other)}), ASCEND_OPP_PATH=opp)
    assert result.code == 1 and "ARM" in result.err


@pytest.mark.parametrize("options", [["--frob"], ["--install-for-al"], ["extra"], ["--quiet", "--install-path"]])
def test_unknown_options_are_refused(make_package: Make, opp: Path, options: list[str]) -> None:
    result = run(make_package(), *options, ASCEND_OPP_PATH=opp)
    assert result.code == 1 and "unknown option" in result.err
    assert not (opp / "vendors").exists()


def test_quiet_leaves_the_last_line_only(make_package: Make, opp: Path) -> None:
    loud = run(make_package(), ASCEND_OPP_PATH=opp)
    assert len(loud.out.splitlines()) > 1
    quiet = run(make_package(version="3"), "--quiet", ASCEND_OPP_PATH=opp)
    assert (quiet.code, quiet.out, quiet.err) == (0, "SUCCESS\n", "")


# p3


def test_trailing_colon_of_a_sourced_environment_is_understood(make_package: Make, tmp_path: Path) -> None:
    first, second, target = make_package("mxrec_one"), make_package("mxrec_two"), tmp_path / "custom"
    assert run(first, f"--install-path={target}").code == 0
    value = f"{target}/vendors/mxrec_one:"
    assert run(second, ASCEND_CUSTOM_OPP_PATH=value).code == 0
    assert (target / "vendors/mxrec_two" / OPAPI).is_file()
    assert not (target / "vendors/mxrec_one/vendors").exists()


def test_missing_custom_directory_is_created_and_made_findable(make_package: Make, tmp_path: Path) -> None:
    target = tmp_path / "not there" / "yet"
    assert run(make_package(), ASCEND_CUSTOM_OPP_PATH=target).code == 0
    assert (target / "vendors/mxrec_demo/bin/set_env.bash").is_file()


def test_several_custom_targets_are_refused(make_package: Make, tmp_path: Path) -> None:
    result = run(make_package(), ASCEND_CUSTOM_OPP_PATH=f"{tmp_path}/a:{tmp_path}/b")
    assert result.code == 1 and "--install-path" in result.err


def test_no_target_is_an_error(make_package: Make) -> None:
    result = run(make_package())
    assert result.code == 1 and "ASCEND_OPP_PATH" in result.err and result.out == ""


def test_set_env_adds_each_entry_once_and_no_empty_one(make_package: Make, tmp_path: Path) -> None:
    target = tmp_path / "it's $here"
    assert run(make_package(), f"--install-path={target}").code == 0
    vendor = target / "vendors/mxrec_demo"
    script = 'source "$F"; source "$F"; printf "%s\\n%s" "$ASCEND_CUSTOM_OPP_PATH" "$LD_LIBRARY_PATH"'
    result = run("bash", "-euc", script, F=vendor / "bin/set_env.bash")
    assert result.out == f"{vendor}\n{vendor}/op_api/lib", result.err
    result = run(
        "bash", "-euc", script, F=vendor / "bin/set_env.bash", ASCEND_CUSTOM_OPP_PATH="/x", LD_LIBRARY_PATH="/y"
    )
    assert result.out == f"{vendor}:/x\n{vendor}/op_api/lib:/y"


def test_one_set_env_for_all_that_is_installed(make_package: Make, tmp_path: Path) -> None:
    """In the order of load_priority, where there is one; what comes later is known without another file."""
    target = tmp_path / "it's $here"
    file = target / "vendors/set_env.bash"
    script = 'source "$F"; source "$F"; printf "%s\\n%s" "$ASCEND_CUSTOM_OPP_PATH" "$LD_LIBRARY_PATH"'
    packages = {name: make_package(f"mxrec_{name}") for name in ("one", "two")}
    first = run(packages["one"], f"--install-path={target}")
    assert first.code == 0 and f"source '{file}'" in first.out and "bin/set_env.bash" not in first.out
    kept = file.read_bytes()
    assert run(packages["two"], ASCEND_CUSTOM_OPP_PATH=target).code == 0
    assert file.read_bytes() == kept
    two, one = (f"{target}/vendors/mxrec_{name}" for name in ("two", "one"))
    result = run("bash", "-euo", "pipefail", "-c", script, F=file, ASCEND_CUSTOM_OPP_PATH="/x", LD_LIBRARY_PATH="/y")
    assert result.out == f"{two}:{one}:/x\n/y:{two}/op_api/lib:{one}/op_api/lib", result.err
    assert run("bash", "-c", 'source "$F"; compgen -v _', F=file).out.split() == ["_"]
    assert run(packages["one"], f"--install-path={target}", "--uninstall").code == 0
    result = run("bash", "-euo", "pipefail", "-c", script, F=file)
    assert result.out == f"{two}\n{two}/op_api/lib", result.err
    assert run(packages["two"], f"--install-path={target}", "--uninstall").code == 0
    assert list((target / "vendors").iterdir()) == []


def test_a_set_env_of_somebody_else_stays(make_package: Make, tmp_path: Path) -> None:
    target, package = tmp_path / "target", make_package()
    file = target / "vendors/set_env.bash"
    file.parent.mkdir(parents=True)
    file.write_text("export MINE=1\n")
    result = run(package, f"--install-path={target}")
    assert result.code != 0 and f"mv {file}" in result.out + result.err
    assert [entry.name for entry in file.parent.iterdir()] == ["set_env.bash"]
    file.unlink()
    assert run(package, f"--install-path={target}").code == 0
    file.write_text("export MINE=1\n")
    assert run(package, f"--install-path={target}", "--uninstall").code == 0
    assert file.read_text() == "export MINE=1\n"


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


# Conflicts


HEADER = {"op_api/include/aclnn_demo.h": b"// the same operator"}


def test_an_operator_of_another_vendor_is_refused_and_force_puts_this_one_first(make_package: Make, opp: Path) -> None:
    assert run(make_package(), ASCEND_OPP_PATH=opp).code == 0
    before = tree_state(opp)
    other = make_package("mxrec_other", changes=HEADER)
    refused = run(other, ASCEND_OPP_PATH=opp)
    assert refused.code == 1 and "operator demo is served by another vendor already: mxrec_demo" in refused.err
    assert f"{opp}/vendors/mxrec_demo/scripts/uninstall.sh" in refused.err
    assert tree_state(opp) == before
    forced = run(other, "--force", ASCEND_OPP_PATH=opp)
    assert forced.code == 0 and "mxrec_other is put before mxrec_demo" in forced.err
    assert priority(opp) == "load_priority=mxrec_other,mxrec_demo"
    assert run(other, ASCEND_OPP_PATH=opp).code == 1  # the conflict is still there


def test_a_custom_path_that_wins_is_named(make_package: Make, opp: Path, tmp_path: Path) -> None:
    assert run(make_package("mxrec_other", changes=HEADER), f"--install-path={tmp_path}/custom").code == 0
    entry = f"{tmp_path}/custom/vendors/mxrec_other"
    result = run(make_package(), f"--install-path={opp}", ASCEND_CUSTOM_OPP_PATH=entry)
    assert result.code == 0 and f"operator demo is still taken from {entry}" in result.err


@pytest.mark.parametrize(("package", "toolkit"), [("8.3.RC1", "twin"), ("twin-8.3.RC1", "cann")])
def test_a_package_of_the_other_platform_is_refused(make_package: Make, opp: Path, package: str, toolkit: str) -> None:
    lines = "Version=8.3.RC1\n" + ("platform=twin\n" if toolkit == "twin" else "")
    (opp.parent / "version.info").write_text(lines)
    info = {"version.info": f"custom_opp_compiler_version={package}\n".encode()}
    result = run(make_package(changes=info), ASCEND_OPP_PATH=opp, ASCEND_HOME_PATH=opp.parent)
    assert result.code == 1 and "get the other package" in result.err
    assert not (opp / "vendors").exists()


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


# p5


@needs_root
def test_root_installs_for_all_and_another_user_reads(make_package: Make, opp: Path) -> None:
    open_parents(opp)
    assert run(make_package(), f"--install-path={opp}", "--install-for-all", umask=0o077).code == 0
    vendor = opp / "vendors/mxrec_demo"
    result = as_nobody(
        f'source "{vendor}/bin/set_env.bash" && echo "$ASCEND_CUSTOM_OPP_PATH" && cat "{vendor}/{OPAPI}" | wc -c'
    )
    assert result.out.split("\n")[:2] == [str(vendor), str((vendor / OPAPI).stat().st_size)], result.err


@needs_root
def test_without_install_for_all_another_user_is_kept_out(make_package: Make, opp: Path) -> None:
    open_parents(opp)
    assert run(make_package(), f"--install-path={opp}").code == 0
    assert as_nobody(f'cat "{opp}/vendors/mxrec_demo/{OPAPI}"').code != 0


@needs_root
def test_a_user_installs_in_his_own_place_and_not_in_roots(make_package: Make, opp: Path, tmp_path: Path) -> None:
    package = make_package()
    open_parents(opp)
    home = tmp_path / "his home"
    home.mkdir()
    os.chown(home, nobody_id(), -1)
    refused = as_nobody(f'ASCEND_OPP_PATH="{opp}" "{package}"')
    assert refused.code == 1 and "ERROR" in refused.err
    result = as_nobody(f'"{package}" "--install-path={home}/opp"')
    assert result.last == "SUCCESS", result.err
    assert (home / "opp/vendors/mxrec_demo").stat().st_uid == nobody_id()
    assert as_nobody(f'"{home}/opp/vendors/mxrec_demo/scripts/uninstall.sh"').code == 0


def open_parents(path: Path) -> None:
    """pytest's directories are closed to other users."""
    for parent in (path, *path.parents):
        if parent.name.startswith("pytest-") or "pytest-" in str(parent.parent):
            parent.chmod(0o755)


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
