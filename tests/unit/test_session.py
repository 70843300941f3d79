"""A command's choices: wrong ones are refused before an engine is asked, a dry run changes nothing."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from grstack import network, session, spec
from grstack.choices import Choices
from grstack.engines import local, names
from grstack.engines.fake import FakeEngine
from grstack.engines.local import LocalEngine
from grstack.errors import EngineError, GrstackError, LockError, UnsupportedError, UsageError
from grstack.network import Settings
from grstack.paths import Paths
from grstack.run import Runner
from grstack.session import Session

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def elsewhere(clean_network: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRSTACK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(network, "SYSTEM_PIP_FILES", ())


def make(**choices: str) -> Session:
    return Session(ROOT, Choices(**choices), Console(file=io.StringIO()))


WRONG = [
    ({"target": "tpu"}, UsageError, "unknown target 'tpu'; valid: cpu, cuda, npu"),
    ({"platform": "ascend"}, UsageError, "unknown platform 'ascend'; valid: cann, twin"),
    ({"target": "cuda", "platform": "twin"}, UsageError, "valid: cuda"),
    ({"python": "3.9"}, UsageError, "unknown Python '3.9'; valid: 3.10, 3.11"),
    ({"platform": "cann", "python": "3.10"}, UnsupportedError, "has Python 3.11, not 3.10"),
    ({"platform": "cann", "base": "cann-8.5"}, UsageError, "unknown base 'cann-8.5'; valid: cann-8.2.rc1-910b, cann"),
    ({"platform": "cann", "base": "debian-12"}, UsageError, "unknown base 'debian-12'"),
    ({"base": "cann-8.5.0-910b"}, UsageError, "is a choice of platform cann"),
    ({"target": "cpu", "base": "cann-8.5.0-910b"}, UsageError, "is a choice of platform cann"),
    (
        {"platform": "cann", "base": "cann-8.2.rc1-910b", "python": "3.10"},
        UnsupportedError,
        "has Python 3.11, not 3.10",
    ),
    ({"target": "cuda", "python": "3.10"}, UnsupportedError, "has Python 3.11, not 3.10"),
]


@pytest.mark.parametrize(("choices", "error", "message"), WRONG)
def test_a_wrong_choice_starts_no_engine(
    choices: dict[str, str], error: type[GrstackError], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(*args: object) -> FakeEngine:
        raise AssertionError("an engine was asked for")

    monkeypatch.setattr(session, "find_engine", find)
    for read in (lambda: make(**choices).plan, lambda: make(**choices).plan_to_show(with_engine=False)):
        with pytest.raises(error, match=message):
            read()


@pytest.mark.parametrize(
    ("choices", "following"),
    [
        ({"platform": "cuda"}, "the same with --target cuda in place of --platform"),
        ({"target": "cann"}, "the same with --platform cann in place of --target"),
        ({"target": "tpu"}, ""),
        ({"platform": "ascend"}, ""),
    ],
)
def test_a_platform_for_a_target_and_a_target_for_a_platform(choices: dict[str, str], following: str) -> None:
    with pytest.raises(UsageError) as error:
        _ = make(**choices).platform
    assert error.value.next_command == following


def test_a_target_that_is_only_locked_says_which_have_an_image(tmp_path: Path) -> None:
    for entry in ROOT.iterdir():
        if entry.name in ("versions.yaml", "locks", "recipes"):
            (tmp_path / entry.name).symlink_to(entry)
    shutil.copytree(ROOT / "docker/cpu", tmp_path / "docker/cpu", symlinks=False)
    other = Session(tmp_path, Choices(target="cuda"), Console(file=io.StringIO()))
    with pytest.raises(UnsupportedError, match="has no image yet; images: cpu"):
        other.check_choices()


def test_an_unknown_engine_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(UsageError, match="valid: auto, docker, none"):
        _ = make(engine="podman").plan


def test_a_dry_run_asks_no_index_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    class Engine(FakeEngine):
        def resolve_base(self, base, platform, *, act=True):  # type: ignore[no-untyped-def]
            asked.append(act)
            return base.reference

    def probe(*args: object, **more: object) -> str:
        raise AssertionError("an index was asked")

    monkeypatch.setattr(session, "find_engine", lambda *args: Engine())
    monkeypatch.setattr("grstack.fetch._wheels._locate", probe)
    plan = make().plan_to_show(with_engine=True)
    assert asked == [False]
    assert "(torch: plain)" in plan.step("wheels").summary
    assert not (tmp_path / "cache").exists()
    with pytest.raises(AssertionError, match="index was asked"):
        _ = make().plan
    monkeypatch.setenv("GRSTACK_TORCH_BUILD", "cpu")
    assert "(torch: cpu)" in make().plan_to_show(with_engine=True).step("wheels").summary


@pytest.mark.parametrize(
    ("base", "torch_npu", "python"),
    [
        ("cann-8.3.rc1-910b", "2.6.0.post3", "3.11"),
        ("cann-8.3.rc1-910b-openeuler24.03", "2.6.0.post3", "3.11"),
        ("cann-8.3.rc1-a3", "2.6.0.post3", "3.11"),
        ("cann-8.2.rc1-910b", "2.6.0", "3.11"),
        ("cann-8.5.0-910b", "2.6.0.post5", "3.11"),
        ("cann-8.5.0-910b-py3.10", "2.6.0.post5", "3.10"),
    ],
)
def test_a_base_brings_its_cann_torch_npu_and_python(
    base: str, torch_npu: str, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRSTACK_TORCH_BUILD", "plain")
    made = make(platform="cann", base=base)
    plan = made.plan_to_show(with_engine=False)
    assert plan.base.startswith("quay.io/ascend/cann:") and plan.python == python
    locked = {package.name: package.version for package in made.lock.packages}
    assert locked["torch-npu"] == torch_npu
    assert names.short(plan) == f"grstack/npu:{base}"
    assert plan.home == ("/usr/local/Ascend/cann-8.5.0" if "8.5.0" in base else "")
    standing = make(platform="cann").plan_to_show(with_engine=False)
    assert (plan.image.key == standing.image.key) == (base == "cann-8.3.rc1-910b")


@pytest.mark.parametrize(("target", "name"), [("npu", "grstack/npu:twin"), ("cpu", "grstack/cpu:cpu")])
def test_another_python_has_a_base_and_a_name_of_its_own(
    target: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRSTACK_TORCH_BUILD", "plain")
    plan = make(target=target, python="3.10").plan_to_show(with_engine=False)
    assert plan.python == "3.10" and plan.base.startswith("ubuntu@sha256:")
    assert names.short(plan) == f"{name}-py3.10"
    usual = make(target=target, python="3.11").plan_to_show(with_engine=False)
    assert usual.base.startswith("debian@sha256:") and names.short(usual) == name
    here = make(target=target, python="3.10", engine="none").plan_to_show(with_engine=False)
    assert here.python == "3.10" and names.short(here) == name, "this machine's own Python needs no base"


def test_operators_for_cann_on_the_host_follow_its_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRSTACK_TORCH_BUILD", "plain")
    home = tmp_path / "toolkit"
    monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
    with pytest.raises(EngineError, match="needs CANN"):
        _ = make(platform="cann", engine="none").plan
    home.mkdir()

    def operator_key(version: str, platform: str = "cann") -> str:
        (home / "version.info").write_text(f"version={version}\n")
        plan = make(platform=platform, engine="none").plan
        return next(step.key for step in plan.components if step.recipe and step.recipe.operator)

    assert operator_key("8.3.RC1") == operator_key("8.3.RC1")
    assert operator_key("8.3.RC1") != operator_key("8.3.RC2")
    assert operator_key("8.3.RC1", "twin") == operator_key("8.3.RC2", "twin")


def test_locks_that_recipes_name_are_those_of_the_session_s_machine_and_current() -> None:
    assert [lock.name for lock in make(target="cuda").beside] == ["gluon-py3.11-x86_64"]
    assert make().beside == make(target="cpu").beside == ()
    text = (ROOT / "versions.yaml").read_text(encoding="utf-8")
    stale = make(target="cuda")
    stale.__dict__["versions"] = spec.loads(text.replace("triton: 3.6.0", "triton: 3.6.1"))
    with pytest.raises(LockError, match="has changed since") as caught:
        stale.check_choices()
    assert caught.value.next_command == "inv lock --only gluon-py3.11-x86_64"


def test_the_local_engine_has_the_image_s_second_compiler_where_it_installs_it(tmp_path: Path) -> None:
    """Under the prefix; docker/cuda's variable and the recipe's script say where."""
    engine = LocalEngine(Paths(root=tmp_path, cache=tmp_path), Runner(Console(quiet=True)), Settings())
    cuda = make(target="cuda").plan_to_show(with_engine=False)
    (there,) = re.findall(r"GR_OPS_TRITON=(\S+)", (ROOT / "docker/cuda/Dockerfile").read_text(encoding="utf-8"))
    assert engine.environment(cuda)["GR_OPS_TRITON"] == f"{tmp_path / engine.locate(cuda, cuda.image)}{there}"
    assert f"target=$GRSTACK_ROOT{there}\n" in (ROOT / "recipes/gluon/install.sh").read_text(encoding="utf-8")
    assert "GR_OPS_TRITON" not in engine.environment(make().plan_to_show(with_engine=False))


def test_the_local_engine_names_its_result(tmp_path: Path) -> None:
    engine = LocalEngine(Paths(root=tmp_path, cache=tmp_path), Runner(Console(file=io.StringIO())), Settings())
    assert engine.describe(make().plan_to_show(with_engine=False)) == {}


def test_what_was_made_for_another_place_is_made_anew(tmp_path: Path) -> None:
    """The commands of a virtual environment name where it was made: they do not work in a moved checkout."""
    plan = make().plan_to_show(with_engine=False)
    step = plan.step("environment")

    def engine(root: str) -> LocalEngine:
        return LocalEngine(Paths(root=tmp_path / root, cache=tmp_path), Runner(Console(quiet=True)), Settings())

    place = tmp_path / "here" / engine("here").locate(plan, step)
    place.mkdir(parents=True)
    local.leave_mark(step, place)
    assert engine("here").is_built(plan, step)
    (tmp_path / "here").rename(tmp_path / "there")
    assert not engine("there").is_built(plan, step)
