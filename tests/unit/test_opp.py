"""The vendor manager on invented opp directories with real ELF libraries."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest
from opp_tree import OPAPI, library, make_vendor, set_priority, write_manifest
from rich.console import Console

from grstack.ask import ask
from grstack.choices import Choices
from grstack.errors import PackageError, UsageError
from grstack.opp import show
from grstack.opp.command import opp as command
from grstack.opp.remove import remove
from grstack.opp.scan import State, scan
from grstack.opp.search import Environment, candidates, conflicts, serving, which
from grstack.opp.verify import verify
from grstack.run import Runner
from grstack.session import Session

ROOT = Path(__file__).resolve().parents[2]
QUIET = Runner(Console(quiet=True))


@pytest.fixture
def opp(tmp_path: Path) -> Path:
    """Two vendors by priority, one that nothing names; the path holds a space."""
    place = tmp_path / "an opp"
    make_vendor(place, "mxrec_one", "AddOne", "AddBoth")
    make_vendor(place, "mxrec_two", "AddTwo")
    make_vendor(place, "idle", "AddTwo")
    set_priority(place, "mxrec_two", "mxrec_one")
    return place


def env(opp: Path | str = "", *custom: Path, user: int | None = None, toolkit: str = "") -> Environment:
    user = os.geteuid() if user is None else user
    return Environment(opp=str(opp), custom=tuple(map(str, custom)), user=user, toolkit=toolkit)


def messages(environment: Environment, severity: str = "error") -> list[str]:
    return [f"{p.vendor}: {p.message}" for p in verify(environment, candidates(environment)) if p.severity == severity]


# The search


def test_vendors_come_in_the_runtime_s_order(opp: Path) -> None:
    found = candidates(env(opp))
    assert [(c.vendor.name, c.found_by, bool(c.not_asked)) for c in found] == [
        ("mxrec_two", "load_priority, place 1", False),
        ("mxrec_one", "load_priority, place 2", False),
        ("idle", "nothing", True),
    ]
    assert found[1].vendor.operators == ("AddBoth", "AddOne")
    assert (found[1].vendor.package, found[1].vendor.version) == ("mxrec_one_package", "1.0")
    assert found[1].vendor.socs == ("ascend910b",)


def test_the_custom_path_comes_first(opp: Path, tmp_path: Path) -> None:
    other = make_vendor(tmp_path / "mine", "theirs", "AddOne")
    found = candidates(env(opp, other))
    assert [c.vendor.name for c in found][:2] == ["theirs", "mxrec_two"]
    answer = which(found, "AddOne")
    assert answer is not None and answer.by is not None
    assert answer.by.vendor.name == "theirs" and answer.by.found_by == "ASCEND_CUSTOM_OPP_PATH, entry 1"
    assert [c.vendor.name for c in answer.shadowed] == ["mxrec_one"]
    assert [s.operator for s in conflicts(found)] == ["AddOne"]


def test_one_directory_by_both_variables_is_no_conflict(opp: Path) -> None:
    found = candidates(env(opp, opp / "vendors/mxrec_one"))
    assert conflicts(found) == ()
    answer = which(found, "AddOne")
    assert answer is not None and answer.by is not None and answer.by.found_by == "ASCEND_CUSTOM_OPP_PATH, entry 1"


@pytest.mark.parametrize("name", ["AddTwo", "aclnnAddTwo", "add_two", "addtwo"])
def test_an_operator_is_known_by_all_its_names(opp: Path, name: str) -> None:
    answer = which(candidates(env(opp)), name)
    assert answer is not None and answer.by is not None
    assert answer.by.vendor.name == "mxrec_two"
    assert [c.vendor.name for c in answer.not_asked] == ["idle"]


def test_a_library_of_another_user_is_not_asked(opp: Path) -> None:
    if os.geteuid() != 0:
        owner = os.geteuid()
        found = candidates(env(opp, user=owner + 1))
    else:
        owner = 4321
        os.chown(opp / "vendors/mxrec_two" / OPAPI, owner, -1)
        found = candidates(env(opp))
        assert not candidates(env(opp, user=owner))[0].not_asked
        assert not candidates(env(opp, user=owner))[1].not_asked  # root's, which everyone takes
    assert f"belongs to user {owner}" in found[0].not_asked
    answer = which(found, "AddTwo")
    assert answer is not None and answer.by is None


def test_the_variables_of_a_shell(tmp_path: Path) -> None:
    environment = Environment.of({"ASCEND_OPP_PATH": "/opp", "ASCEND_CUSTOM_OPP_PATH": "/a/vendors/x:", "OTHER": "1"})
    assert (environment.opp, environment.custom) == ("/opp", ("/a/vendors/x",))
    assert Environment.of({"ASCEND_OPP_PATH": "/opp"}, opp="/mine").opp == "/mine"


def test_a_custom_entry_one_level_too_high_says_so(opp: Path) -> None:
    assert "must name a vendor's directory" in candidates(env("", opp))[0].not_asked


# Verification


def test_sound_vendors_have_no_error(opp: Path) -> None:
    assert messages(env(opp)) == ["idle: the runtime does not ask it: load_priority does not name it"]


@pytest.mark.parametrize("damage", ["changed", "missing", "added"])
def test_files_are_compared_with_the_manifest(opp: Path, damage: str) -> None:
    place = opp / "vendors/mxrec_two"
    if damage == "changed":
        (place / "version.info").write_text("package=forged\n")
        expected = "mxrec_two: changed since it was packed: version.info"
    elif damage == "missing":
        (place / "version.info").unlink()
        expected = "mxrec_two: missing: version.info"
    else:
        (place / "op_api/extra.txt").write_text("x")
        expected = "mxrec_two: not part of the package: op_api/extra.txt"
    assert expected in messages(env(opp))


def test_a_vendor_without_a_manifest_is_noted_only(opp: Path) -> None:
    (opp / "vendors/mxrec_two/manifest.sha256").unlink()
    assert any(m.startswith("mxrec_two: no manifest.sha256") for m in messages(env(opp), "note"))


def test_undefined_symbols_are_named(opp: Path) -> None:
    place = opp / "vendors/mxrec_two"
    weak = "__attribute__((weak)) int maybe(void); int m(void) { return maybe(); }\n"
    text = "int gone(void); int call(void) { return gone(); }\n" + weak
    (place / OPAPI).write_bytes(library("AddTwo", more=text))
    write_manifest(place)
    assert "mxrec_two: libcust_opapi.so has undefined symbols: gone" in messages(env(opp))


def test_a_library_that_fails_to_load_is_found(opp: Path) -> None:
    place = opp / "vendors/mxrec_two"
    text = "__attribute__((constructor)) static void refuse(void) { __builtin_trap(); }\n"
    (place / OPAPI).write_bytes(library("AddTwo", more=text))
    write_manifest(place)
    assert any("libcust_opapi.so cannot be loaded" in m for m in messages(env(opp)))


def test_a_needed_library_that_only_the_toolkit_has(opp: Path, tmp_path: Path) -> None:
    import subprocess

    toolkit = tmp_path / "toolkit"
    (toolkit / "lib64").mkdir(parents=True)
    (tmp_path / "n.c").write_text("int from_toolkit(void) { return 1; }\n")
    (tmp_path / "a.c").write_text(
        "int from_toolkit(void); int aclnnAddTwo(void) { return from_toolkit(); }\n"
        "int aclnnAddTwoGetWorkspaceSize(void) { return 0; }\n"
    )
    flags = ["cc", "-shared", "-fPIC", "-nostdlib"]
    subprocess.run([*flags, "-o", str(toolkit / "lib64/libtool.so"), str(tmp_path / "n.c")], check=True)
    place = opp / "vendors/mxrec_two"
    link = [str(tmp_path / "a.c"), f"-L{toolkit}/lib64", "-ltool"]
    subprocess.run([*flags, "-o", str(place / OPAPI), *link], check=True)
    write_manifest(place)
    assert any("libtool.so come with the toolkit" in m for m in messages(env(opp), "note"))
    assert not [m for m in messages(env(opp)) if m.startswith("mxrec_two")]
    with_toolkit = env(opp, toolkit=str(toolkit))
    assert not [m for m in messages(with_toolkit) if m.startswith("mxrec_two")]
    assert any("needs libtool.so, not found" in m for m in messages(env(opp, toolkit=str(tmp_path / "other"))))


def test_another_machine_and_no_library(opp: Path) -> None:
    content = bytearray(library("AddTwo"))
    content[18:20] = (0x28).to_bytes(2, "little")  # e_machine: 32-bit ARM
    (opp / "vendors/mxrec_two" / OPAPI).write_bytes(bytes(content))
    assert any("is for ARM" in m for m in messages(env(opp)))
    (opp / "vendors/mxrec_one" / OPAPI).write_text("no library")
    assert any(
        m.startswith("mxrec_one: the runtime does not ask it") and "cannot be read" in m for m in messages(env(opp))
    )


def test_priority_that_names_nothing_and_a_link_to_nothing(opp: Path) -> None:
    set_priority(opp, "gone", "mxrec_two", "mxrec_one", "idle")
    (opp / "vendors/mxrec_one/broken.so").symlink_to("nowhere")
    found = messages(env(opp))
    assert "gone: the runtime does not ask it: the directory is not there" in found
    assert "mxrec_one: links that lead nowhere: broken.so" in found
    assert "mxrec_two: AddTwo is also in idle (load_priority, place 4), which the runtime never asks for it" in found


def test_a_package_of_the_other_platform(opp: Path, tmp_path: Path) -> None:
    home = tmp_path / "cann"
    home.mkdir()
    (home / "version.cfg").write_text("toolkit_running_version=[8.3.RC1]\n")
    assert any("built by twin-8.3.RC1, but the toolkit" in m for m in messages(env(opp, toolkit=str(home))))
    (home / "version.info").write_text("Version=8.3.RC1\nplatform=twin\n")
    assert not any("but the toolkit" in m for m in messages(env(opp, toolkit=str(home))))


# Removal


def test_removal_by_the_vendor_s_own_script(opp: Path) -> None:
    remove(candidates(env(opp)), "mxrec_two", QUIET)
    assert not (opp / "vendors/mxrec_two").exists()
    assert [c.vendor.name for c in candidates(env(opp)) if not c.not_asked] == ["mxrec_one"]


def test_removal_without_a_script_needs_force(opp: Path) -> None:
    make_vendor(opp, "foreign", "AddThree", uninstaller=False)
    set_priority(opp, "foreign", "mxrec_one")
    (opp / "vendors/config.ini").write_text("; kept\nload_priority=foreign,mxrec_one\n")
    with pytest.raises(PackageError, match="no scripts/uninstall.sh"):
        remove(candidates(env(opp)), "foreign", QUIET)
    remove(candidates(env(opp)), "foreign", QUIET, force=True)
    assert not (opp / "vendors/foreign").exists()
    assert (opp / "vendors/config.ini").read_text() == "load_priority=mxrec_one\n; kept\n"


def test_a_name_that_only_the_priority_has_is_taken_out(opp: Path) -> None:
    set_priority(opp, "gone")
    remove(candidates(env(opp)), "gone", QUIET)
    assert not (opp / "vendors/config.ini").exists()


def test_lines_of_others_outlive_the_last_vendor(opp: Path) -> None:
    (opp / "vendors/config.ini").write_text("; mine\nload_priority=gone\n")
    remove(candidates(env(opp)), "gone", QUIET)
    assert (opp / "vendors/config.ini").read_text() == "; mine\n"


def test_an_unknown_vendor_lists_the_known_ones(opp: Path) -> None:
    with pytest.raises(UsageError, match="unknown vendor 'nobody'; valid: idle, mxrec_one, mxrec_two"):
        remove(candidates(env(opp)), "nobody", QUIET)


# The command


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> tuple[Session, io.StringIO]:
    for name in list(os.environ):
        if name.startswith("ASCEND"):
            monkeypatch.delenv(name)
    out = io.StringIO()
    return Session(ROOT, Choices(), Console(file=out, width=200, highlight=False)), out


def test_list_and_which_and_verify_answer(session: tuple[Session, io.StringIO], opp: Path) -> None:
    s, out = session
    assert command(s, "list", into=str(opp)) == 0
    assert command(s, "which", "AddTwo", into=str(opp)) == 0
    assert command(s, "verify", into=str(opp)) == 1
    text = out.getvalue()
    assert "mxrec_two_package 1.0" in text and "not asked: load_priority does not name it" in text
    assert "served by mxrec_two" in text and "because load_priority, place 1 is the first place searched" in text
    assert "1 of the findings must be mended" in text
    assert command(s, "remove", "idle", into=str(opp)) == 0
    assert command(s, "verify", into=str(opp)) == 0
    assert "2 vendors are sound" in out.getvalue()


def test_the_variables_name_the_place(
    session: tuple[Session, io.StringIO], opp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    s, _ = session
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(opp / "vendors/idle"))
    monkeypatch.setenv("ASCEND_OPP_PATH", str(opp))
    assert command(s, "list", as_json=True) == 0
    found = json.loads(capsys.readouterr().out)["found"]
    assert [c["vendor"]["name"] for c in found] == ["idle", "mxrec_two", "mxrec_one"]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("frob",), {}, "unknown action 'frob'; valid: list, remove, verify, which"),
        (("which",), {"into": "x"}, "takes an operator"),
        (("list", "x"), {"into": "x"}, "takes no name"),
        (("remove", "x"), {}, "come from its build"),
        (("remove", "x"), {"image": True}, "come from its build"),
        (("list",), {"into": "/not/there"}, "is not a directory"),
    ],
)
def test_what_makes_no_sense_is_refused(
    session: tuple[Session, io.StringIO], arguments: tuple[str, ...], options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        command(session[0], *arguments, **options)  # type: ignore[arg-type]


def test_an_operator_that_nobody_has(session: tuple[Session, io.StringIO], opp: Path) -> None:
    with pytest.raises(UsageError, match="unknown operator 'Frob'; valid: AddBoth, AddOne, AddTwo"):
        command(session[0], "which", "Frob", into=str(opp))


def test_a_state_survives_its_way_out_of_an_image(opp: Path) -> None:
    state = scan(env(opp, opp / "vendors/idle"), verified=True)
    assert State.from_json(state.to_json()) == state


def test_conflicts_show_in_the_list(opp: Path) -> None:
    set_priority(opp, "idle", "mxrec_two")
    out = io.StringIO()
    show.vendors(scan(env(opp)), "here", Console(file=out, width=200))
    assert "conflict: AddTwo is taken from idle; mxrec_two is never asked for it" in out.getvalue()
    assert [s.operator for s in serving(candidates(env(opp)))] == ["AddBoth", "AddOne", "AddTwo"]


def test_the_scanner_needs_no_library_of_the_tool(tmp_path: Path) -> None:
    """It runs in images, which have pyelftools but neither rich nor invoke."""
    blocked = "import sys; sys.modules.update(dict.fromkeys({!r})); import grstack.opp.scan".format(
        ("rich", "invoke", "pydantic", "yaml", "platformdirs")
    )
    answer = ask([sys.executable, "-c", blocked], env={"PYTHONPATH": str(ROOT)})
    assert answer.code == 0, answer.errors
