"""Carrying out a plan on the fake engine: what is kept, what a failure and an interruption leave."""

from __future__ import annotations

import errno
import json
import threading
from pathlib import Path

import pytest
from rich.console import Console

from grstack.engines import Inputs
from grstack.engines.fake import FakeEngine
from grstack.errors import DiskFull, Interrupted, StepError
from grstack.execute import build_lock, check_disk, execute, groups
from grstack.needs import DISK_LEFT, GIB
from grstack.paths import Paths
from grstack.plan import Plan, Step, make_plan
from grstack.report import BuildReport
from tests.project import COMPONENTS, OPERATORS, make_lock, make_project


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(root=make_project(tmp_path / "a place with spaces"), cache=tmp_path / "cache")


def plan_of(paths: Paths, *, devel: bool = False) -> Plan:
    return make_plan(
        paths.root,
        lock=make_lock(),
        platform="twin",
        base="bootstrap:x",
        build="plain",
        components=COMPONENTS,
        operators=OPERATORS,
        devel=devel,
    )


def run(paths: Paths, engine: FakeEngine, until: str = "", *, devel: bool = False) -> BuildReport:
    console = Console(quiet=True)
    return execute(plan_of(paths, devel=devel), engine, paths, lambda: Inputs(), console, until=until)


def test_everything_is_built_once(paths: Paths) -> None:
    engine = FakeEngine()
    run(paths, engine)
    assert engine.history[0] == "base" and engine.history[-1] == "image" and "packages" in engine.history
    engine.history.clear()
    report = run(paths, engine)
    assert engine.history == []
    assert {step.status for step in report.steps} == {"kept"}


def test_a_devel_variant_is_built_upon_the_image_that_is_there(paths: Paths) -> None:
    engine = FakeEngine()
    run(paths, engine)
    engine.history.clear()
    report = run(paths, engine, devel=True)
    assert engine.history == ["devel"] and report.steps[-1].name == "devel"
    engine.history.clear()
    run(paths, engine, devel=True)
    assert engine.history == []


def test_one_operator_changed_rebuilds_it_and_the_image(paths: Paths) -> None:
    engine = FakeEngine()
    run(paths, engine)
    engine.history.clear()
    (paths.root / "kernels/operators/two/op_kernel/two.cpp").write_text("// two, better\n")
    run(paths, engine)
    assert engine.history == ["operators/two", "packages", "image"]


def test_what_the_image_does_not_hold_is_built_beside_it(paths: Paths) -> None:
    engine = FakeEngine()
    run(paths, engine)
    engine.history.clear()
    (paths.root / "recipes/packages/build.sh").write_text("exit 0\n")
    report = run(paths, engine)
    assert engine.history == ["packages"]
    assert {step.name: step.status for step in report.steps}["image"] == "kept"


def test_until_builds_only_what_is_asked_for(paths: Paths) -> None:
    engine = FakeEngine()
    run(paths, engine, until="operators")
    assert "operators/one" in engine.history and "torchrec" not in engine.history and "image" not in engine.history


@pytest.mark.parametrize("at", ["base", "torchrec", "operators/one"])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KeyboardInterrupt(), Interrupted),
        (OSError(errno.ENOSPC, "No space left on device"), DiskFull),
        (StepError("it broke"), StepError),
    ],
)
def test_a_stopped_build_continues_where_it_stopped(
    paths: Paths, error: BaseException, expected: type[Exception], at: str
) -> None:
    def fail(step: Step) -> BaseException | None:
        return error if step.name == at else None

    engine = FakeEngine(fail=fail)
    with pytest.raises(expected):
        run(paths, engine)
    done = set(engine.built)
    assert at not in done and "image" not in done
    engine.fail = lambda step: None
    engine.history.clear()
    run(paths, engine)
    assert not done & set(engine.history)
    assert engine.history[-1] == "image"


class Meeting(FakeEngine):
    """Each of `names` is not built before the others have begun."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names
        self.all_here = threading.Barrier(len(names), timeout=60)

    def build(self, plan: Plan, step: Step, inputs: Inputs) -> None:
        if step.name in self.names:
            self.all_here.wait()
        super().build(plan, step, inputs)


def test_two_operators_are_built_at_once(paths: Paths) -> None:
    engine = Meeting("operators/one", "operators/two")
    report = run(paths, engine)
    names = [step.name for step in report.steps]
    assert names == [step.name for step in plan_of(paths).steps if step.name in names]  # in order, whoever came first


def test_the_base_is_made_while_wheels_are_fetched(paths: Paths) -> None:
    engine = Meeting("wheels", "base")

    def fetch() -> Inputs:
        engine.all_here.wait()
        return Inputs()

    report = execute(plan_of(paths), engine, paths, fetch, Console(quiet=True))
    statuses = {step.name: step.status for step in report.steps}
    assert (statuses["wheels"], statuses["base"]) == ("verified", "built")


def test_a_base_that_fails_and_wheels_that_are_there_are_both_reported(paths: Paths) -> None:
    with pytest.raises(StepError, match="no base"):
        run(paths, FakeEngine(fail=lambda step: StepError("no base") if step.name == "base" else None))
    steps = json.loads((paths.build / "build-report.json").read_text())["steps"]
    assert {step["name"]: step["status"] for step in steps} == {"wheels": "verified", "base": "failed"}


def test_what_is_large_is_built_by_itself(paths: Paths) -> None:
    found = [[step.name for step in group] for group in groups(plan_of(paths).steps)]
    assert ["wheels", "base"] in found and ["operators/one", "operators/two"] in found
    assert all(len(group) == 1 for group in found if group[0] not in ("wheels", "operators/one"))


def test_a_second_build_waits_and_says_so(paths: Paths) -> None:
    from grstack.errors import Busy

    console = Console(record=True, width=120, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115
    with build_lock(paths, Console(quiet=True)), pytest.raises(Busy), build_lock(paths, console, patience=0.1):
        raise AssertionError("two builds at once")
    assert "another build runs" in console.export_text()


def test_the_report_is_complete_and_replaces_the_old_one_at_once(paths: Paths) -> None:
    import json

    run(paths, FakeEngine())
    content = json.loads((paths.build / "build-report.json").read_text())
    assert content["emulated"] is True
    assert [step["name"] for step in content["steps"]][-1] == "image"
    assert not list(paths.build.glob(".build-report.json.*"))


def test_a_failed_build_leaves_a_report_that_says_so(paths: Paths) -> None:
    import json

    run(paths, FakeEngine())
    (paths.root / "recipes/torchrec/build.sh").write_text("exit 1\n")
    with pytest.raises(StepError):
        run(paths, FakeEngine(fail=lambda step: StepError("it broke") if step.name == "torchrec" else None))
    steps = json.loads((paths.build / "build-report.json").read_text())["steps"]
    assert steps[-1]["name"] == "torchrec" and steps[-1]["status"] == "failed"


def test_a_lost_artefact_is_built_again_where_it_is_asked_for(paths: Paths) -> None:
    engine = FakeEngine()
    run(paths, engine)
    del engine.built["operators/two"]
    engine.history.clear()
    report = run(paths, engine)  # the image has it, and needs nothing more
    assert engine.history == []
    report = run(paths, engine, until="operators")
    assert engine.history == ["operators/two"]
    assert {s.name: s.status for s in report.steps}["operators/two"] == "built"


def test_no_step_is_started_without_room_in_the_checkout_the_cache_or_the_engine(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "engine-store"

    class Engine(FakeEngine):
        def places(self) -> tuple[Path, ...]:
            return (store,)

    engine = Engine()
    for full in (paths.build, paths.cache, store):
        free = {paths.build: 99 * GIB, paths.cache: 99 * GIB, store: 99 * GIB, full: DISK_LEFT - 1}
        monkeypatch.setattr("grstack.execute.free_bytes", free.__getitem__)
        with pytest.raises(DiskFull, match="a first build 20 GiB") as error:
            run(paths, engine)
        assert error.value.where == str(full)
    assert engine.history == []
    monkeypatch.setattr("grstack.execute.free_bytes", lambda path: DISK_LEFT)
    run(paths, engine)


@pytest.mark.parametrize(("target", "gib"), [("npu", 20), ("cpu", 20), ("cuda", 30)])
def test_what_a_first_build_needs_is_the_target_s(
    target: str, gib: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grstack.execute.free_bytes", lambda path: 0)
    with pytest.raises(DiskFull, match=f"a first build {gib} GiB"):
        check_disk((tmp_path,), target)


def test_the_report_names_the_result(paths: Paths) -> None:
    report = run(paths, FakeEngine())
    assert report.result == {"image": f"fake/image:{plan_of(paths).image.short_key}"}
    console = Console(record=True, width=120, file=open("/dev/null", "w"))  # noqa: SIM115
    report.show(console)
    assert "image: fake/image:" in console.export_text()


def test_packages_of_others_stay_beside_those_of_builds(tmp_path: Path) -> None:
    from types import SimpleNamespace

    from grstack.engines.artefacts import MANIFEST, Artefacts
    from grstack.paths import Paths

    paths = Paths(root=tmp_path, cache=tmp_path / "cache")
    artefacts = Artefacts(paths)
    (paths.packages).mkdir(parents=True)
    (paths.packages / "mine.run").write_text("mine")
    for build, names in enumerate((["a.run", "b.whl", "log.txt"], ["a.run"])):
        step = SimpleNamespace(name="one", key=f"{build}" * 64, short_key=f"{build}" * 12)
        place = artefacts.directory(step)
        place.mkdir(parents=True)
        for name in names:
            (place / name).write_text(str(build))
        (place / MANIFEST).write_text(json.dumps(dict.fromkeys(names, "")))
        artefacts.publish((step,))
        found = {path.name: path.read_text() for path in paths.packages.iterdir() if path.name[0] != "."}
        assert found == {"mine.run": "mine", **{name: str(build) for name in names if name != "log.txt"}}
    for damaged in ("", "{", "[1]", '{"a": 1}'):
        (paths.packages / ".published.json").write_text(damaged)
        artefacts.publish((step,))
        assert sorted(path.name for path in paths.packages.glob("[!.]*")) == ["a.run", "mine.run"]


def test_a_local_prefix_does_not_take_the_place_of_others(tmp_path: Path) -> None:
    from grstack.engines import local
    from grstack.errors import EngineError

    place = tmp_path / "environment-0123456789ab"
    local._fresh(place)
    (place / "half").touch()
    assert [path.name for path in local._fresh(place).iterdir()] == [local.BEGUN]
    (place / local.BEGUN).unlink()
    (place / "mine").touch()
    with pytest.raises(EngineError, match="was not made by it"):
        local._fresh(place)
    assert (place / "mine").exists()
