"""The `+cpu` wheel of torch where its index can be reached: an index on localhost offers a stand-in, see cpu_wheel.py.

Slow: locks, images and suites of targets cpu and npu. Needs an engine, a C compiler and the package index.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from grstack import commands, fetch, locks, spec, suites
from grstack.choices import Choices
from grstack.engines import Mount
from grstack.engines.find import answers
from grstack.execute import execute
from grstack.plan import Kind
from grstack.session import Session
from tests.integration import cpu_wheel
from tests.unit.package_index import PackageIndex

ROOT = Path(__file__).resolve().parents[2]
WHEEL = "torch-2.6.0+cpu-cp311-cp311-linux_x86_64.whl"
LINKED_TO = ("nvidia-cuda-runtime-cu12", "nvidia-cuda-cupti-cu12", "nvidia-cudnn-cu12")
MB = 1_000_000
MADE = (Kind.ENVIRONMENT, Kind.BUILDER, Kind.IMAGE, Kind.DEVEL)
SUITES = ("embeddings/hybrid_torchrec/tests/cuda", "gr_model/tests/cuda", "kernels/gr_ops/tests/cuda")
CONSOLE = Console(width=140, highlight=False)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def index() -> Iterator[PackageIndex]:
    if not answers():
        pytest.fail("these tests need a running engine; type: inv build-image")
    index = PackageIndex()
    yield index
    index.close()


@pytest.fixture(scope="module")
def checkout(index: PackageIndex, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of this checkout that pins the stand-in, beside a cache that has neither build of torch."""
    here = Session(ROOT, Choices(), CONSOLE)
    plain = fetch.fetch_wheels(here.lock, here.paths.wheels, here.settings, build="plain")
    by_name = {package.name: plain[package.filename] for package in here.lock.wheels("plain")}
    place = tmp_path_factory.mktemp("cpu-torch")
    made = cpu_wheel.make(by_name["torch"], [by_name[name] for name in LINKED_TO], WHEEL, place)
    shutil.rmtree(place / "tree")
    index.wheels[WHEEL] = made.read_bytes()
    copy = place / "checkout"
    files = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(files, cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    real = next(package.sha256 for package in here.lock.packages if package.variant == "cpu")
    versions = (copy / "versions.yaml").read_text()
    assert versions.count(real) == 1
    (copy / "versions.yaml").write_text(versions.replace(real, hashlib.sha256(index.wheels[WHEEL]).hexdigest()))
    wheels = place / "cache/wheels"
    for package in here.lock.wheels("plain"):
        if package.name != "torch" and not package.plain_only:
            source = here.paths.wheels / package.sha256
            shutil.copytree(source, wheels / package.sha256, copy_function=_link)
    compiled = here.paths.cache / "ccache"
    if compiled.is_dir():  # object files by their text and compiler: the stand-in's headers are the plain wheel's
        shutil.copytree(compiled, place / "cache/ccache", symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRSTACK_CACHE", str(place / "cache"))
        patch.setenv("GRSTACK_TORCH_INDEX_URL", index.url)
        patch.delenv("GRSTACK_TORCH_BUILD", raising=False)
        yield copy
    shutil.rmtree(place)


def _link(source: str, destination: str) -> None:
    """Gigabytes once. What cannot be linked (another file system) is copied."""
    try:
        os.link(source, destination)
    except OSError:
        shutil.copy2(source, destination)


@pytest.fixture(scope="module")
def built(checkout: Path, request: pytest.FixtureRequest) -> Iterator[Session]:
    """The image of a target by its exact name: the short one stays whose it is. It goes before the next is built."""
    target = request.param
    session = Session(checkout, Choices(target=target, devel=target == "npu"), CONSOLE)  # suites compile
    locks.lock_all(checkout, session.versions, [f"{target}-py3.11-x86_64"], settings=session.settings, console=CONSOLE)
    there = {image.id for image in session.engine.client.images.list()}  # type: ignore[attr-defined]
    execute(session.plan, session.engine, session.paths, session.fetch, CONSOLE)
    yield session
    client: Any = session.engine.client  # type: ignore[attr-defined]
    for step in reversed([step for step in session.plan.steps if step.kind in MADE]):
        image = client.images.get(session.engine.locate(session.plan, step))
        if image.id not in there:
            client.images.remove(image.id, force=True)


def of(*targets: str) -> pytest.MarkDecorator:
    """A test of these targets' images; all tests of one run before those of the next."""
    return pytest.mark.parametrize("built", targets, indirect=True, scope="module")


def python(session: Session, code: str) -> str:
    image = session.engine.locate(session.plan, session.plan.image)
    argv = ["docker", "run", "--rm", "--network=none", "--entrypoint=/opt/grstack/venv/bin/python", image, "-c", code]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@of("cpu", "npu")
def test_the_lock_differs_by_the_wheel_that_was_made_and_nothing_else(
    built: Session, index: PackageIndex, tmp_path: Path
) -> None:
    """From what the index gives for the real wheel now: when ours was locked, its mirror may have been behind."""
    versions, name = spec.load(ROOT / "versions.yaml"), built.lock.name
    locks.lock_all(tmp_path, versions, [name], settings=built.settings, console=CONSOLE)
    real = locks.read(tmp_path, built.plan.target, "3.11", "x86_64")
    other = {package.sha256 for package in built.lock.packages} - {package.sha256 for package in real.packages}
    assert other == {hashlib.sha256(index.wheels[WHEEL]).hexdigest()}
    assert [package.filename for package in built.lock.packages] == [p.filename for p in real.packages]


@of("cpu", "npu")
def test_the_wheel_of_the_index_is_taken_and_brings_no_cuda(built: Session, index: PackageIndex) -> None:
    assert built.build == "cpu" and WHEEL in index.downloads
    names = [package.name for package in built.lock.wheels("cpu")]
    assert not [name for name in names if name.startswith("nvidia")]
    with_triton = built.plan.target == "npu"
    assert ("triton" in names) == with_triton, "the kernels' tests run in its interpreter"
    told = python(built, "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())")
    assert told.split() == ["2.6.0+cpu", "None", "False"]
    folder = python(built, "import importlib.util as u; print(u.find_spec('nvidia'), u.find_spec('triton') is None)")
    assert folder.split() == ["None", str(not with_triton)]


@of("cpu")
def test_the_cpu_image_is_below_its_budget_and_passes_the_smoke_test(built: Session) -> None:
    image = built.engine.client.images.get(built.engine.locate(built.plan, built.plan.image))  # type: ignore[attr-defined]
    size = sum(layer["Size"] for layer in image.history())
    print(f"grstack/cpu with the +cpu wheel: {size / MB:.0f} MB")
    assert size < 2500 * MB
    commands.fetch_data("ml-100k")
    out = Mount(source=built.paths.build / "smoke", name="out", writable=True)
    out.source.mkdir(parents=True)
    mounts = [out, Mount(source=ROOT / "data", name="data"), Mount(source=built.paths.root / "locks", name="locks")]
    places = {mount.name: built.engine.path_of(mount) for mount in mounts}
    argv = ["python", "-m", "smoke_tests", "--out", places["out"], "--data-dir", places["data"]]
    argv += ["--lock", f"{places['locks']}/{built.lock.name}.json"]
    argv += ["--manifest", built.engine.manifest_path(built.plan)]
    assert built.engine.run(built.plan, argv, mounts=mounts) == 0


@of("npu")
def test_every_suite_is_collected(built: Session) -> None:
    source = Mount(source=ROOT, name="source")
    for suite in suites.IN_IMAGE:
        argv = ["python", "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "-p", "no:ascend_twin"]
        argv += ["--rootdir", "/source", *suites.chosen_by(suite, "/source")]
        assert built.engine.run(built.plan, argv, mounts=[source], apart="collect") == 0, suite


@of("npu")
@pytest.mark.parametrize("suite", SUITES)
def test_the_suites_that_need_triton_pass(built: Session, suite: str) -> None:
    built.paths.data.mkdir(exist_ok=True)
    suites.stage_wheels(built)
    (built.paths.build / suites.RESULTS).mkdir(parents=True, exist_ok=True)
    assert suites.in_image(built, suite) == 0
