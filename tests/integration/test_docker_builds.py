"""Builds on the real engine that are cut short: nothing half-built is taken as built, nothing is left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from grstack.engines import names
from grstack.engines.docker import DockerEngine
from grstack.engines.find import answers
from grstack.engines.names import KEY
from grstack.errors import EngineError
from grstack.network import Settings
from grstack.paths import Paths
from grstack.plan import Plan, make_plan
from grstack.run import Runner
from tests.project import COMPONENTS, OPERATORS, make_lock, make_project

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.image

BUILD = """
import sys
from pathlib import Path
from rich.console import Console
from grstack.engines import Inputs
from grstack.errors import GrstackError
from grstack.execute import execute
from tests.integration.test_docker_builds import engine_of, plan_of
root = Path(sys.argv[1])
engine = engine_of(root)
wheel = root / "torchrec-1.1.0-py3-none-any.whl"
wheel.write_text("a wheel")
try:
    inputs = Inputs(wheels_all={wheel.name: wheel})
    execute(plan_of(root), engine, engine.paths, lambda: inputs, Console(), until="torchrec")
except GrstackError as error:
    print(error)
    sys.exit(error.exit_code)
"""


def engine_of(root: Path) -> DockerEngine:
    return DockerEngine(Paths(root=root, cache=root / "cache"), Runner(Console()), Settings())


def plan_of(root: Path) -> Plan:
    return make_plan(
        root,
        lock=make_lock(),
        platform="twin",
        base="bootstrap:fixture",
        build="plain",
        components=COMPONENTS,
        operators=OPERATORS,
    )


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A fixture project whose builder stands for the real one: the real base under the fixture's key."""
    if not answers():
        pytest.fail("these tests need a running engine; type: inv build-image")
    project = make_project(tmp_path)
    (project / "docker/base/packages.txt").write_text(f"{uuid.uuid4()}\n")  # a key of its own in each test
    engine, plan = engine_of(project), plan_of(project)
    image = next(i for i in engine.client.images.list("grstack/base") if i.tags)
    tag = engine.locate(plan, plan.builder)
    script = f"FROM {image.tags[0]}\nLABEL {KEY}={plan.builder.key}\n"
    subprocess.run(
        [str(engine.cli), "build", "-q", "-t", tag, "-"],
        input=script,
        text=True,
        check=True,
        capture_output=True,
        env={**os.environ, "DOCKER_BUILDKIT": "1"},
    )
    yield project
    engine.client.images.remove(tag, force=True)


def start(root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BUILD, str(root)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def containers(engine: DockerEngine) -> list[str]:
    return [c.name for c in engine.client.containers.list() if c.name.startswith("grstack-torchrec")]


def wait_for_container(engine: DockerEngine) -> None:
    for _ in range(300):
        if containers(engine):
            return
        time.sleep(0.1)
    raise AssertionError("the build did not start its container")


def test_sigint_leaves_nothing_and_the_next_run_continues(root: Path) -> None:
    engine = engine_of(root)
    script = root / "recipes/torchrec/build.sh"
    script.write_text('touch "$GRSTACK_OUT/a.whl"; sleep 120\n')
    process = start(root)
    wait_for_container(engine)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "nothing half-built" in output
    plan = plan_of(root)
    assert not engine.is_built(plan, plan.step("torchrec"))
    assert containers(engine) == []
    script.write_text('cp /wheels/*.whl "$GRSTACK_OUT/a.whl"\n')
    again = start(root)
    output, _ = again.communicate(timeout=60)
    assert again.returncode == 0, output
    plan = plan_of(root)
    assert engine.is_built(plan, plan.step("torchrec"))
    assert (engine.artefacts.directory(plan.step("torchrec")) / "a.whl").read_text() == "a wheel"


def test_sigkill_leaves_nothing_that_is_taken_as_built_or_goes_on(root: Path) -> None:
    engine = engine_of(root)
    script = root / "recipes/torchrec/build.sh"
    script.write_text('touch "$GRSTACK_OUT/a.whl"; sleep 120\n')
    process = start(root)
    wait_for_container(engine)
    process.kill()
    process.wait(60)
    plan = plan_of(root)
    assert not engine.is_built(plan, plan.step("torchrec"))
    assert len(containers(engine)) == 1, "the engine does not know that its client is dead"
    script.write_text('cp /wheels/*.whl "$GRSTACK_OUT/a.whl"\n')
    again = start(root)
    output, _ = again.communicate(timeout=120)
    assert again.returncode == 0, output
    assert containers(engine) == [], "the next build of the checkout ends what was left"
    assert engine.is_built(plan_of(root), plan_of(root).step("torchrec"))


def image(engine: DockerEngine, plan: Plan, tag: str, key: str, word: str) -> None:
    script = f"FROM {engine.locate(plan, plan.builder)}\nLABEL {KEY}={key}\nENV WHOSE={word}\n"
    subprocess.run(
        [str(engine.cli), "build", "-q", "-t", tag, "-"],
        input=script,
        text=True,
        check=True,
        capture_output=True,
        env={**os.environ, "DOCKER_BUILDKIT": "1"},
    )


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> str:
    """The short name of the fixture's image: the real one is not the tests' to move."""
    name = f"grstack/names-test:{uuid.uuid4().hex}"
    monkeypatch.setattr(names, "short", lambda plan: name)
    return name


def test_a_run_takes_the_image_of_its_own_plan(root: Path, short: str) -> None:
    """Somebody may have moved every name since the lock was released."""
    engine, plan = engine_of(root), plan_of(root)
    engine.runner = Runner(Console(record=True, width=200))
    for key, word in ((plan.image.key, "ours"), ("another", "theirs")):
        image(engine, plan, names.exact(plan), key, word)
    assert engine.run(plan, ["sh", "-c", "echo it is $WHOSE"]) == 0
    assert "it is ours" in engine.runner.console.export_text()
    assert engine.describe(plan)["image"] == engine.image_id(plan) != engine.client.images.get(names.exact(plan)).id
    engine.client.images.remove(engine.image_id(plan), force=True)
    engine.client.images.remove(names.exact(plan), force=True)
    assert not engine.is_built(plan, plan.image)
    with pytest.raises(EngineError, match="is not there"):
        engine.run(plan, ["true"])


def test_two_checkouts_have_an_image_each_and_say_who_takes_the_short_name(
    root: Path, short: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    engine, plan = engine_of(root), plan_of(root)
    other = make_project(tmp_path_factory.mktemp("another checkout"))
    (other / "docker/base/packages.txt").write_text("others\n")
    theirs, their_plan = engine_of(other), plan_of(other)
    theirs.paths = Paths(root=other, cache=engine.paths.cache)  # one user
    image(engine, plan, names.exact(plan), plan.image.key, "ours")
    image(engine, plan, names.exact(their_plan), their_plan.image.key, "theirs")
    try:
        assert engine.name_result(plan, take=True) == ""
        assert theirs.name_result(their_plan, take=False) == ""
        assert engine.client.images.get(short).id == engine.image_id(plan)
        said = theirs.name_result(their_plan, take=True)
        assert names.exact(plan) in said and str(root) in said
        assert engine.client.images.get(short).id == theirs.image_id(their_plan)
        assert engine.client.images.get(names.exact(plan)).id == engine.image_id(plan) != theirs.image_id(their_plan)
    finally:
        for tag in (short, names.exact(plan), names.exact(their_plan)):
            engine.client.images.remove(tag, force=True)


def test_a_build_has_no_network_and_reads_only_its_inputs(root: Path) -> None:
    (root / "recipes/torchrec/build.sh").write_text(
        'test ! -e "$GRSTACK_SOURCE/twin" || { echo "sees the twin"; exit 1; }\n'
        '! touch "$GRSTACK_SOURCE/x" 2>/dev/null || { echo "writes the source"; exit 1; }\n'
        "ls /sys/class/net | grep -v '^lo$' && { echo 'has a network'; exit 1; }\n"
        'touch "$GRSTACK_OUT/a.whl"\n'
    )
    process = start(root)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output


def test_a_promise_that_is_not_kept_is_named(root: Path) -> None:
    (root / "recipes/torchrec/build.sh").write_text("true\n")
    process = start(root)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 10 and "promises '*.whl'" in output
