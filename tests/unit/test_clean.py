"""What `inv clean` takes and what it leaves, on an invented cache and daemon."""

from __future__ import annotations

import io
import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from grstack import clean
from grstack.choices import Choices
from grstack.engines import local
from grstack.engines.checkouts import Checkouts
from grstack.engines.fake import FakeEngine
from grstack.engines.images import Image, outdated
from grstack.errors import Busy
from grstack.execute import build_lock
from grstack.paths import Paths
from grstack.plan import make_plan
from grstack.session import Session
from grstack.spec import Base
from tests.project import COMPONENTS, OPERATORS, make_lock, make_project

ROOT = Path(__file__).resolve().parents[2]
KEPT, OLD, FOREIGN = "a" * 64, "b" * 64, "c" * 64
LONG_AGO = time.time() - 10 * clean.GRACE


@dataclass
class FakeImages:
    images: list[Image] = field(default_factory=list)
    refuse: str = ""

    def all(self) -> list[Image]:
        return list(self.images)

    def remove(self, image: Image) -> str:
        if not self.refuse:
            self.images.remove(image)
        return self.refuse


def image(key: str, *tags: str, created: float = LONG_AGO) -> Image:
    return Image(identity=f"sha256:{key}", tags=tags, key=key, created=created, unique_bytes=5 << 20)


def artefact(paths: Paths, name: str, key: str, *, age: float = LONG_AGO) -> Path:
    place = paths.artefacts / name / key[:12]
    place.mkdir(parents=True)
    (place / "a.run").write_bytes(b"x" * 100_000)
    (place / "manifest.json").write_text("{}")
    os.utime(place, (age, age))
    return place


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(root=tmp_path / "a checkout", cache=tmp_path / "cache")
    found.scratch.mkdir(parents=True)
    (found.scratch / "half").write_bytes(b"y" * 50_000)
    found.wheels.mkdir(parents=True)
    (found.wheels / KEPT).mkdir()
    (found.wheels / KEPT / "torch.whl").write_bytes(b"z" * 200_000)
    found.images.mkdir()
    for key in (KEPT, OLD):
        (found.images / key).touch()
    return found


def names(items: list[clean.Item]) -> list[str]:
    return [f"{item.what} {Path(item.name).name}" for item in items]


def test_current_and_recent_artefacts_stay(paths: Paths) -> None:
    kept, recent = artefact(paths, "twin", KEPT), artefact(paths, "twin", FOREIGN, age=time.time())
    old = artefact(paths, "operators/one", OLD)
    items = clean.collect(paths, {KEPT}, None)
    assert names(items) == ["scratch scratch", f"artefact {OLD[:12]}"]
    freed = clean.remove(items, paths, None, Console(quiet=True))
    assert not old.exists() and not paths.scratch.exists()
    assert kept.exists() and recent.exists() and (paths.wheels / KEPT / "torch.whl").exists()
    assert freed == sum(item.bytes for item in items) >= 150_000


def test_all_takes_the_wheels_too(paths: Paths) -> None:
    assert "fetched wheels wheels" in names(clean.collect(paths, {KEPT}, None, everything=True))


def test_local_prefixes_of_older_plans_go(paths: Paths) -> None:
    for name in (f"environment-{KEPT[:12]}", f"npu-twin-{OLD[:12]}"):
        (paths.local / name).mkdir(parents=True)
        (paths.local / name / local.BEGUN).touch()
    items = clean.collect(paths, {KEPT}, None)
    assert [Path(item.name).name for item in items if item.what == "local prefix"] == [f"npu-twin-{OLD[:12]}"]


@pytest.mark.parametrize("name", ["my-env", "environment-123", f"mine-{OLD[:12]}"])
def test_local_folders_of_others_stay(paths: Paths, name: str) -> None:
    (paths.local / name).mkdir(parents=True)
    (paths.local / name / "mine").touch()
    assert not any(item.what == "local prefix" for item in clean.collect(paths, {KEPT}, None, everything=True))


def test_all_leaves_what_others_have_in_the_cache(paths: Paths) -> None:
    """GRSTACK_CACHE may be a folder that others use too."""
    mine = [
        paths.wheels / "mine-1.0-py3-none-any.whl",
        paths.cache / "uv/main.c",
        paths.artefacts / "thesis/manifest.json",
    ]
    (paths.cache / "elsewhere").mkdir()
    (paths.wheels / OLD).symlink_to(paths.cache / "elsewhere")
    for path in (*mine, paths.cache / "elsewhere/mine"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        os.utime(path.parent, (LONG_AGO, LONG_AGO))
    items = clean.collect(paths, set(), None, everything=True)
    clean.remove(items, paths, None, Console(quiet=True))
    assert all(path.read_text() == "mine" for path in (*mine, paths.cache / "elsewhere/mine"))
    assert not (paths.wheels / KEPT).exists()


def test_uvs_cache_is_known_by_its_tag(paths: Paths) -> None:
    (paths.cache / "uv").mkdir()
    (paths.cache / "uv/CACHEDIR.TAG").touch()
    items = clean.collect(paths, set(), None, everything=True)
    assert "uv's cache uv" in names(items)


def test_compiled_objects_go_with_all_alone(paths: Paths) -> None:
    for name in ("docker", "mine"):
        (paths.cache / "ccache" / name / "store/0").mkdir(parents=True)
    (paths.cache / "ccache/docker/store/0/CACHEDIR.TAG").touch()
    assert not any("compiled" in name for name in names(clean.collect(paths, set(), None)))
    found = [item.name for item in clean.collect(paths, set(), None, everything=True) if "compiled" in item.what]
    assert found == [str(paths.cache / "ccache/docker")]


def test_only_old_images_of_this_user_that_no_command_runs(paths: Paths) -> None:
    chosen = [image(OLD, "grstack/npu-environment:bbb"), image(OLD), image(OLD, "grstack/npu:twin-bbbbbbbbbbbb")]
    chosen += [image(OLD, "grstack/cpu:cpu-py3.10-bbbbbbbbbbbb")]
    left = [
        image(OLD, "grstack/npu:twin", "grstack/npu:twin-bbbbbbbbbbbb"),
        image(OLD, "grstack/cpu:cpu-py3.10"),
        image(KEPT, "grstack/npu:twin-aaaaaaaaaaaa"),
        image(KEPT, "grstack/base:aaa"),
        image(FOREIGN, "grstack/base:ccc"),
        image(OLD, "grstack/npu:twin"),
        image(OLD, "grstack/cpu:cpu-py3.10-devel"),
        image(OLD, created=time.time()),
    ]
    found = outdated([*chosen, *left], keep={KEPT}, ours={KEPT, OLD}, before=time.time() - clean.GRACE)
    assert found == chosen
    daemon = FakeImages([*chosen, *left])
    items = [item for item in clean.collect(paths, {KEPT}, daemon) if item.image]
    assert [item.image for item in items] == chosen
    clean.remove(items, paths, daemon, Console(quiet=True))
    assert daemon.images == left
    assert {file.name for file in paths.images.iterdir()} == {KEPT}


def test_what_another_checkout_has_built_last_is_current_while_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its image has an exact name only, once this checkout has taken the short one."""
    monkeypatch.setenv("GRSTACK_CACHE", str(tmp_path / "cache"))
    s = Session(ROOT, Choices(engine="none"), Console(quiet=True))
    other = make_project(tmp_path / "another checkout")
    (other / "versions.yaml").touch()
    plan = make_plan(
        other,
        lock=make_lock(),
        platform="twin",
        base="bootstrap:x",
        build="plain",
        components=COMPONENTS,
        operators=OPERATORS,
    )
    theirs = {step.key for step in plan.steps}
    assert not theirs & clean.current_keys(s, [PinnedEngine()])
    Checkouts(Paths(root=other, cache=s.paths.cache)).note("grstack/npu:twin", plan)
    assert theirs <= clean.current_keys(s, [PinnedEngine()])
    shutil.rmtree(other)
    assert not theirs & clean.current_keys(s, [PinnedEngine()])


def test_an_image_in_use_stays_and_is_named(paths: Paths) -> None:
    daemon = FakeImages([image(OLD, "grstack/base:bbb")], refuse="a container uses it")
    items = [item for item in clean.collect(paths, {KEPT}, daemon) if item.image]
    out = io.StringIO()
    assert clean.remove(items, paths, daemon, Console(file=out, width=200)) == 0
    assert "kept: grstack/base:bbb: a container uses it" in out.getvalue()
    assert (paths.images / OLD).exists()


def test_images_of_others_are_counted_only(paths: Paths) -> None:
    out = io.StringIO()
    clean.show_unknown(paths, {KEPT}, FakeImages([image(FOREIGN), image(KEPT), image(OLD)]), Console(file=out))
    assert "1 images of grstack were not built, or not noted, by this user" in out.getvalue()


def test_nothing_is_removed_while_a_build_runs(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean, "PATIENCE", 0.1)
    old = artefact(paths, "twin", OLD)
    items = clean.collect(paths, {KEPT}, None)
    with build_lock(paths, Console(quiet=True)), pytest.raises(Busy):
        clean.remove(items, paths, None, Console(quiet=True))
    assert old.exists()


def test_the_table_names_everything_and_the_sum(paths: Paths) -> None:
    artefact(paths, "twin", OLD)
    out = io.StringIO()
    daemon = FakeImages([image(OLD)])
    clean.show(clean.collect(paths, {KEPT}, daemon), Console(file=out, width=200))
    text = out.getvalue()
    assert f"artefacts/twin/{OLD[:12]}" in text and "untagged bbbbbbbbbbbb" in text and "at least 5." in text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 40, "3072.0 GiB")])
def test_bytes_for_people(count: int, text: str) -> None:
    assert clean.human(count) == text


def test_hard_links_count_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    before = clean.size_of(tmp_path)
    os.link(tmp_path / "a", tmp_path / "b")
    assert clean.size_of(tmp_path) == before


class PinnedEngine(FakeEngine):
    """Knows a base under a name that only the engine can tell."""

    def resolve_base(self, base: Base, platform: str, *, act: bool = True) -> str:
        assert not act, "nothing may be pulled to clean up"
        return f"{base.image}@sha256:{'7' * 64}"


@pytest.mark.parametrize(
    ("engine", "way"), [("pinned", "resolved"), ("none", "resolved"), ("pinned", "pulled"), ("pinned", "bootstrapped")]
)
def test_what_a_command_of_this_checkout_builds_is_current(engine: str, way: str) -> None:
    s = Session(ROOT, Choices(engine="none"), Console(quiet=True))
    used = PinnedEngine() if engine == "pinned" else s.engine
    assert s.base.bootstrap is not None
    base = {"pulled": s.base.reference, "bootstrapped": s.base.bootstrap.reference}.get(way, "")
    base = base or used.resolve_base(s.base, s.platform, act=False)
    plan = make_plan(
        ROOT,
        lock=s.lock,
        platform=s.platform,
        base=base,
        build="plain",
        components=s.target.components,
        operators=s.operators,
    )
    assert {step.key for step in plan.steps} <= clean.current_keys(s, [used])
