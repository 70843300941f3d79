"""Removal of outdated images on the real daemon. Every image here is the test's own, and no other is touched."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from grstack import clean
from grstack.choices import Choices
from grstack.engines import docker_cli
from grstack.engines.find import answers
from grstack.engines.images import DockerImages
from grstack.engines.names import KEY
from grstack.paths import Paths
from grstack.session import Session

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.image


@pytest.fixture
def client() -> Any:
    import docker

    if not answers():
        pytest.fail("these tests need a running engine; type: inv build-image")
    return docker.from_env(timeout=60)


@pytest.fixture
def built(client: Any, tmp_path: Path) -> Iterator[list[tuple[str, str]]]:
    """Two images that hold a file each: (tag, key)."""
    found = []
    (tmp_path / "context").mkdir()
    for number in range(2):
        tag, key = f"grstack/clean-test:{uuid.uuid4().hex}", uuid.uuid4().hex * 2
        (tmp_path / "context/file").write_bytes(bytes([number]) * 300_000)
        (tmp_path / "context/Dockerfile").write_text(f"FROM scratch\nCOPY file /file\nLABEL {KEY}={key}\n")
        argv = [str(docker_cli.find_client()), "build", "-q", "-t", tag, str(tmp_path / "context")]
        subprocess.run(argv, check=True, capture_output=True)
        found.append((tag, key))
    yield found
    for tag, _ in found:
        for image in client.images.list(tag):
            client.images.remove(image.id, force=True)


def test_the_noted_image_goes_and_the_current_one_stays(
    client: Any, built: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean, "GRACE", -60)  # the images were built this second
    (old, old_key), (current, current_key) = built
    paths = Paths(root=tmp_path / "checkout", cache=tmp_path / "cache")
    paths.images.mkdir(parents=True)
    for key in (old_key, current_key):
        (paths.images / key).touch()
    images = DockerImages(client)
    items = clean.collect(paths, {current_key}, images)
    assert [item.name for item in items] == [old]
    assert items[0].bytes >= 300_000
    container = client.containers.create(old, "none")
    try:
        assert clean.remove(items, paths, images, Console(quiet=True)) == 0  # a container uses it
        assert client.images.list(old) and (paths.images / old_key).exists()
    finally:
        container.remove()
    assert clean.remove(items, paths, images, Console(quiet=True)) == items[0].bytes
    assert not client.images.list(old) and client.images.list(current)
    assert [file.name for file in paths.images.iterdir()] == [current_key]
    assert clean.collect(paths, {current_key}, images) == []


def test_nothing_of_the_plan_that_is_built_here_is_outdated() -> None:
    s = Session(ROOT, Choices(), Console(quiet=True))
    assert {step.key for step in s.plan.steps} <= clean.current_keys(s, [s.engine])
