"""install.sh against the vendor contract."""

import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import ARCH, OPAPI, OPMASTER, OPSPROTO, as_nobody, mode, needs_root, nobody_id, priority, run, tree_state

Make = Callable[..., Path]


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


def link(output: Path, text: str, *needed: Path) -> bytes:
    """A shared library that needs others, which it knows by name alone."""
    output.parent.mkdir(parents=True, exist_ok=True)
    options = ["-shared", "-fPIC", f"-Wl,-soname,{output.name}", "-Wl,--allow-shlib-undefined", "-o", output]
    folders = [f"-L{path.parent}" for path in needed]
    subprocess.run(
        ["cc", "-x", "c", "-", *options, *folders, *(f"-l:{p.name}" for p in needed)], input=text.encode(), check=True
    )
    return output.read_bytes()


@pytest.fixture
def on_a_driver(tmp_path: Path, opp: Path) -> bytes:
    """libcust_opapi.so, which needs the toolkit's library, which needs the driver's; and no driver."""
    hal, runtime = tmp_path / "elsewhere/libascend_hal.so", opp.parent / "lib64/libruntime.so"
    link(hal, "int drvOpen(void) { return 1; }")
    link(runtime, "int drvOpen(void); int rtOpen(void) { return drvOpen(); }", hal)
    return link(tmp_path / "linked/libcust_opapi.so", "int rtOpen(void); int call(void) { return rtOpen(); }", runtime)


STUBS = (
    "runtime/lib64/stub",
    f"runtime/lib64/stub/linux/{ARCH}",
    f"{ARCH}-linux/devlib",
    f"{ARCH}-linux/devlib/linux/{ARCH}",
)


@pytest.mark.parametrize("folder", STUBS)
def test_without_a_driver_the_toolkits_stubs_stand_for_it(
    make_package: Make, tmp_path: Path, opp: Path, on_a_driver: bytes, folder: str
) -> None:
    """An image is built without a driver, and its libraries are opened all the same."""
    package = make_package(changes={OPAPI: on_a_driver})
    result = run(package, ASCEND_OPP_PATH=opp, ASCEND_HOME_PATH=opp.parent)
    assert result.code == 1 and "libascend_hal.so" in result.err
    stub = opp.parent / folder / "libascend_hal.so"
    stub.parent.mkdir(parents=True)
    shutil.copy(tmp_path / "elsewhere/libascend_hal.so", stub)
    result = run(package, ASCEND_OPP_PATH=opp, ASCEND_HOME_PATH=opp.parent)
    assert (result.code, result.last) == (0, "SUCCESS"), result.err


@pytest.mark.parametrize("there", ["a driver", "an old driver"])
def test_no_stub_hides_what_driver_or_toolkit_lack(
    make_package: Make, tmp_path: Path, opp: Path, on_a_driver: bytes, there: str
) -> None:
    stubs, driver = opp.parent / STUBS[0], tmp_path / "a driver/libascend_hal.so"
    shutil.copytree(tmp_path / "elsewhere", stubs)
    if there == "a driver":  # the toolkit's own library is gone, and stands among the stubs
        (opp.parent / "lib64/libruntime.so").rename(stubs / "libruntime.so")
        lacks = "libruntime.so"
        link(driver, "int drvOpen(void) { return 1; }")
    else:  # a driver that is too old
        lacks = "drvOpen"
        link(driver, "int drvOther(void) { return 1; }")
    package = make_package(changes={OPAPI: on_a_driver})
    result = run(package, ASCEND_OPP_PATH=opp, ASCEND_HOME_PATH=opp.parent, LD_LIBRARY_PATH=driver.parent)
    assert result.code == 1 and lacks in result.err


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
