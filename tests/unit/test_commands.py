"""The commands on the fake engine: the names that they take, the reports that they leave, what they say next."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from grstack import commands, fetch, install, session
from grstack.choices import Choices
from grstack.engines import Mount
from grstack.engines.fake import FakeEngine
from grstack.errors import PackageError, StepError, UsageError

ROOT = Path(__file__).resolve().parents[2]
OPERATOR = "dense_to_jagged"


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: FakeEngine) -> Path:
    """This repository's sources with a build folder of its own, and an engine that builds nothing."""
    root = tmp_path / "a checkout"
    root.mkdir()
    for entry in ROOT.iterdir():
        if entry.name not in ("build", "data", ".git", ".venv"):
            (root / entry.name).symlink_to(entry)
    monkeypatch.setenv("GRSTACK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GRSTACK_TORCH_BUILD", "plain")
    for name in ("ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH", "ASCEND_HOME_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(commands, "ROOT", root)
    monkeypatch.setattr(session, "find_engine", lambda *args: engine)
    monkeypatch.setattr(fetch, "fetch_wheels", lambda *args, **more: {})
    monkeypatch.setattr(fetch, "fetch_data", lambda root, name, dest, from_file=None: dest / name)
    return root


@pytest.fixture
def out(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    written = io.StringIO()
    monkeypatch.setattr(commands, "_console", lambda: Console(file=written, width=200, highlight=False))
    return written


def test_a_build_takes_the_short_name_and_says_whose_it_was(engine: FakeEngine, out: io.StringIO) -> None:
    engine.said = "fake/npu:twin was another's"
    commands.build_image(Choices())
    assert engine.named == [("fake/npu:twin", True)]
    assert "note: fake/npu:twin was another's" in out.getvalue()
    assert "fake/npu:twin is ready (fake/image:" in out.getvalue()


def test_a_smoke_test_takes_it_and_a_run_does_not(engine: FakeEngine, out: io.StringIO) -> None:
    commands.smoke_test(Choices())
    assert commands.run(Choices(), ["true"]) == 0
    assert engine.named == [("fake/npu:twin", True), ("fake/npu:twin", False)]


def test_a_run_is_told_of_the_hosts_index_and_ca(
    engine: FakeEngine, out: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.pem").write_text("a certificate")
    monkeypatch.setenv("GRSTACK_INDEX_URL", "https://me:secret@packages.example.com/simple")
    monkeypatch.setenv("GRSTACK_CA_BUNDLE", str(tmp_path / "ca.pem"))
    assert commands.run(Choices(), ["pip", "install", "x"]) == 0
    assert engine.private[-1]["PIP_INDEX_URL"] == "https://me:secret@packages.example.com/simple"
    assert engine.private[-1]["PIP_CERT"] == "/ca-bundle.pem"
    assert Mount(source=tmp_path / "ca.pem", name="ca-bundle.pem") in engine.mounts[-1]


def test_the_next_command_is_of_the_same_image(engine: FakeEngine, out: io.StringIO) -> None:
    commands.build_image(Choices())
    assert out.getvalue().rstrip().endswith("next: make smoke-test")
    commands.build_image(Choices(target="cpu"))
    assert out.getvalue().rstrip().endswith('next: make smoke-test ARGS="--target cpu"')
    commands.build_image(Choices(target="cpu", devel=True))
    assert out.getvalue().rstrip().endswith('next: make shell ARGS="--target cpu --devel"')


def test_tag_names_what_is_built_and_builds_nothing(engine: FakeEngine, out: io.StringIO) -> None:
    with pytest.raises(UsageError, match="no image to name") as error:
        commands.tag(Choices())
    assert error.value.next_command == "inv build-image" and engine.history == []
    commands.build_image(Choices())
    built = len(engine.history)
    commands.tag(Choices())
    assert engine.named[-1] == ("fake/npu:twin", True) and len(engine.history) == built
    assert out.getvalue().rstrip().splitlines()[-1].startswith("fake/npu:twin is fake/image:")


def test_a_part_leaves_the_report_of_the_whole_as_it_is(
    checkout: Path, out: io.StringIO, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(install, "install", lambda *args, **more: None)
    commands.build_image(Choices())
    report = checkout / "build/build-report.json"
    whole = report.read_bytes()
    assert json.loads(whole)["result"]["image"].startswith("fake/image:")
    commands.install_ops(Choices(), operators=(OPERATOR,), into=str(tmp_path / "opp"))
    assert report.read_bytes() == whole
    part = json.loads((checkout / f"build/build-report-operators-{OPERATOR}.json").read_text())
    assert [step["name"] for step in part["steps"]] == [f"operators/{OPERATOR}"]
    commands.install_ops(Choices(), into=str(tmp_path / "opp"), soc="ascend910b")
    assert report.read_bytes() == whole and (checkout / "build/build-report-packages.json").is_file()


@pytest.mark.parametrize("into", ["", "opp"])
def test_a_soc_that_nothing_is_built_for_is_told_the_reason(checkout: Path, tmp_path: Path, into: str) -> None:
    """Before it is told that an image holds every operator, or that a directory is missing."""
    with pytest.raises(UsageError) as fault:
        commands.install_ops(Choices(), into=str(tmp_path / into) if into else "", soc="ascend310p")
    assert "nothing is built for ascend310p: needs" in fault.value.what
    assert fault.value.next_command == "inv install-ops --into DIR --soc ascend910b"
    with pytest.raises(UsageError, match="an image holds every operator"):
        commands.install_ops(Choices(), soc="ascend910b")


def test_a_custom_directory_is_added_to_the_toolkit_s_own_operators(
    out: io.StringIO, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """ASCEND_OPP_PATH in its place would hide the built-in ones."""
    monkeypatch.setattr(install, "install", lambda *args, **more: None)
    target = tmp_path / "my operators"
    commands.install_ops(Choices(), operators=(OPERATOR,), into=str(target))
    assert f"next: source '{target}/vendors/set_env.bash'" in out.getvalue()
    assert "export" not in out.getvalue() and "ASCEND_OPP_PATH" not in out.getvalue()


@pytest.mark.parametrize("how", ["ASCEND_OPP_PATH", "ASCEND_HOME_PATH", "built-in"])
def test_the_toolkit_s_own_directory_needs_no_variable(
    checkout: Path, out: io.StringIO, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    monkeypatch.setattr(install, "install", lambda *args, **more: None)
    target = tmp_path / "toolkit/opp"
    target.mkdir(parents=True)
    if how == "built-in":
        (target / "built-in").mkdir()
    else:
        monkeypatch.setenv(how, str(target if how == "ASCEND_OPP_PATH" else target.parent))
    commands.install_ops(Choices(), operators=(OPERATOR,), into=str(target))
    assert "source" not in out.getvalue() and "next: inv opp list" in out.getvalue()


def test_where_the_installer_is_sent(checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a custom directory, which gets a set_env.bash, or as the toolkit's, whatever this shell's variables name."""
    package = tmp_path / "one.run"
    package.write_text('echo "[$ASCEND_OPP_PATH] [$ASCEND_CUSTOM_OPP_PATH]"')
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", "/else/where")
    for target, expected in (
        (tmp_path / "custom", f"[] [{tmp_path}/custom]"),
        (tmp_path / "opp", f"[{tmp_path}/opp] []"),
    ):
        monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path / "opp"))
        s = session.Session(checkout, Choices(), Console(quiet=True))
        install.install(s, [package], target)
        assert expected in (s.paths.logs / "install-ops.log").read_text()


def test_a_directory_that_no_variable_can_name_is_refused(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="colons") as error:
        install.check_target(tmp_path / "a:b")
    assert "--into" in error.value.next_command


def test_fetch_data_says_what_is_not_verified(
    checkout: Path, out: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = checkout / "data/amzn-beauty"
    folder.mkdir(parents=True)
    (folder / "source.json").write_text(json.dumps({"sha256": "0" * 64}))
    commands.fetch_data("amzn-beauty")
    assert "not verified: no hash is published" in out.getvalue() and "0" * 64 in out.getvalue()
    commands.fetch_data("ml-100k")
    assert out.getvalue().count("not verified") == 1


def test_what_is_to_be_typed_next_is_of_the_target_that_was_asked_for(engine: FakeEngine, out: io.StringIO) -> None:
    with pytest.raises(UsageError) as unnamed:
        commands.tag(Choices(target="cpu"))
    assert unnamed.value.next_command == "inv build-image --target cpu"
    engine.exit_code = 1
    with pytest.raises(StepError) as failed:
        commands.smoke_test(Choices(target="cuda"))
    assert failed.value.next_command.startswith("inv shell --target cuda, ")
