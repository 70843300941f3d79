"""Where a base image comes from: what is here, what a registry says, and what is remembered."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from grstack.engines import upstream
from grstack.engines.upstream import Upstream
from grstack.errors import EngineError, NetworkError, UsageError
from grstack.network import Settings
from grstack.paths import Paths
from grstack.run import CommandFailed, Runner
from grstack.spec import Base
from tests.store import Image, Store

DIGEST = f"sha256:{'a' * 64}"
DEBIAN = Base.model_validate(
    {
        "image": "debian",
        "tag": "12",
        "digest": DIGEST,
        "bootstrap": {"distribution": "debian", "suite": "bookworm"},
        "pythons": ["3.11"],
    }
)
CANN = Base.model_validate(
    {"image": "registry.example/ascend/cann", "tag": "8.3", "unpinned": "no digest", "pythons": ["3.11"]}
)
NO_HOST = 'Error response from daemon: Get "https://registry.example/v2/": dial tcp: lookup x: no such host'
MIRROR = Settings(registry="mirror.corp:5000/proxy")


class Pulling(Runner):
    """`docker pull` without a registry: each reference has an answer, an image or what the client prints."""

    def __init__(self, store: Store, answers: dict[str, Image | list[str]]) -> None:
        super().__init__(Console(file=open(os.devnull, "w")))  # noqa: SIM115
        self.store = store
        self.answers = answers
        self.pulled: list[str] = []

    def stream(self, argv: Sequence[str], **options: object) -> None:  # type: ignore[override]
        reference = argv[-1]
        self.pulled.append(reference)
        answer = self.answers.get(reference, [NO_HOST])
        if isinstance(answer, list):
            raise CommandFailed(argv, 1, answer, None)
        self.store.stored.append(answer)


class Fixture:
    def __init__(
        self,
        root: Path,
        *images: Image,
        answers: dict[str, Image | list[str]] | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.store = Store(*images)
        self.runner = Pulling(self.store, answers or {})
        paths = Paths(root=root, cache=root / "cache")
        self.upstream = Upstream(paths, self.runner, settings or Settings(), self.store, Path("docker"))

    def resolve(self, base: Base, *, act: bool = True) -> str:
        return self.upstream.resolve(base, act=act)


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRSTACK_BASE", raising=False)


def test_a_pinned_image_that_is_here_is_used_and_named_without_a_registry(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path, Image("sha256:1", [], [f"debian@{DIGEST}"]))
    assert fixture.resolve(DEBIAN) == f"debian@{DIGEST}"
    assert fixture.runner.pulled == []
    assert fixture.store.get(fixture.upstream.local_name(f"debian@{DIGEST}")).id == "sha256:1"


def test_an_unpinned_tag_becomes_the_digest_that_was_pulled(tmp_path: Path) -> None:
    image = Image("sha256:2", [CANN.reference], [f"registry.example/ascend/cann@{DIGEST}"])
    fixture = Fixture(tmp_path, answers={CANN.reference: image})
    assert fixture.resolve(CANN) == f"registry.example/ascend/cann@{DIGEST}"
    assert fixture.runner.pulled == [CANN.reference]
    assert fixture.resolve(CANN) == f"registry.example/ascend/cann@{DIGEST}"
    assert len(fixture.runner.pulled) == 1, "what is here is not pulled again"


def test_an_image_loaded_from_a_file_is_told_apart_by_its_id(tmp_path: Path) -> None:
    first = Fixture(tmp_path, Image("sha256:3", [CANN.reference])).resolve(CANN)
    other = Fixture(tmp_path, Image("sha256:4", [CANN.reference])).resolve(CANN)
    assert "sha256:3" in first and first != other


def test_the_configured_registry_is_asked_in_place_of_the_public_one(tmp_path: Path) -> None:
    name = f"mirror.corp:5000/proxy/library/debian@{DIGEST}"
    refusal = ["Error response from daemon: manifest unknown"]
    fixture = Fixture(
        tmp_path,
        answers={f"mirror.corp:5000/proxy/debian@{DIGEST}": refusal, name: Image("sha256:5", [], [name])},
        settings=MIRROR,
    )
    resolved = fixture.resolve(DEBIAN)
    assert fixture.runner.pulled == [f"mirror.corp:5000/proxy/debian@{DIGEST}", name]
    assert resolved == f"debian@{DIGEST}", "the mirror's host is in no plan"
    assert "mirror.corp" not in fixture.upstream.local_name(resolved)
    cann = Fixture(tmp_path, settings=MIRROR)
    with pytest.raises(NetworkError):
        cann.resolve(CANN)
    assert cann.runner.pulled == ["mirror.corp:5000/proxy/ascend/cann:8.3"]


def test_no_registry_means_a_bootstrap_which_is_remembered_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = Fixture(tmp_path)
    assert fixture.resolve(DEBIAN) == "bootstrap:debian/bookworm"
    assert fixture.resolve(DEBIAN) == "bootstrap:debian/bookworm"
    assert fixture.runner.pulled == [DEBIAN.reference], "a registry that is not there is asked once"
    mirrored = Fixture(tmp_path, settings=MIRROR)
    mirrored.resolve(DEBIAN)
    assert len(mirrored.runner.pulled) == 2, "another registry was not asked yet"
    later = upstream.time.time() + upstream.REMEMBERED + 1
    monkeypatch.setattr(upstream.time, "time", lambda: later)
    fixture.resolve(DEBIAN)
    assert len(fixture.runner.pulled) == 2, "after a day it is asked again"


def test_a_base_without_bootstrap_is_an_error_where_no_registry_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NetworkError, match="no such host") as error:
        Fixture(tmp_path).resolve(CANN)
    assert "registry" in error.value.where and "docker load" in error.value.next_command
    monkeypatch.setenv("GRSTACK_BASE", "bootstrap")
    with pytest.raises(EngineError, match="cannot be bootstrapped"):
        Fixture(tmp_path).resolve(CANN)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (["Error response from daemon: manifest for debian not found: manifest unknown"], "the digest of debian:12"),
        (["Error response from daemon: pull access denied, unauthorized"], "docker login"),
        (["12: Pulling from library/debian", "a1: Pulling fs layer", "read tcp: i/o timeout"], "broke off"),
    ],
)
def test_a_registry_that_answers_is_not_taken_for_an_unreachable_one(
    tmp_path: Path, said: list[str], message: str
) -> None:
    fixture = Fixture(tmp_path, answers={DEBIAN.reference: said})
    with pytest.raises(EngineError) as error:
        fixture.resolve(DEBIAN)
    assert message in str(error.value)
    with pytest.raises(EngineError):
        fixture.resolve(DEBIAN)  # and nothing was remembered


UNKNOWN = ["Error response from daemon: manifest unknown"]
MIRRORED = "mirror.corp:5000/proxy/debian"


def test_a_mirror_without_the_image_is_not_told_as_a_wrong_pin(tmp_path: Path) -> None:
    names = (MIRRORED, "mirror.corp:5000/proxy/library/debian")
    fixture = Fixture(tmp_path, answers={f"{name}@{DIGEST}": UNKNOWN for name in names}, settings=MIRROR)
    with pytest.raises(EngineError, match="the registry has no debian:12 either") as error:
        fixture.resolve(DEBIAN)
    assert "network.yaml" in str(error.value.where) and "versions.yaml" not in str(error.value)
    assert error.value.next_command == f"docker push {MIRRORED}:12, from a machine that has it"


def test_a_mirror_with_another_image_under_the_tag_says_which(tmp_path: Path) -> None:
    names = (MIRRORED, "mirror.corp:5000/proxy/library/debian")
    answers: dict[str, Image | list[str]] = {f"{name}@{DIGEST}": UNKNOWN for name in names}
    fixture = Fixture(tmp_path, answers=answers, settings=MIRROR)
    fixture.store.registry[f"{names[1]}:12"] = f"sha256:{'b' * 64}"
    with pytest.raises(EngineError, match=f"under the tag 12 is sha256:{'b' * 64}") as error:
        fixture.resolve(DEBIAN)
    assert error.value.where == "versions.yaml, bases: the digest of debian:12"


def test_the_choice_of_the_user_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Image("sha256:1", [], [DEBIAN.reference])
    monkeypatch.setenv("GRSTACK_BASE", "bootstrap")
    assert Fixture(tmp_path, here).resolve(DEBIAN) == "bootstrap:debian/bookworm"
    monkeypatch.setenv("GRSTACK_BASE", "registry")
    with pytest.raises(NetworkError):
        Fixture(tmp_path).resolve(DEBIAN)
    monkeypatch.setenv("GRSTACK_BASE", "pull")
    with pytest.raises(UsageError, match="auto, bootstrap, registry"):
        Fixture(tmp_path).resolve(DEBIAN)


def test_a_dry_run_pulls_and_writes_nothing(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path)
    assert fixture.resolve(DEBIAN, act=False) == DEBIAN.reference
    assert fixture.resolve(CANN, act=False) == CANN.reference
    assert fixture.runner.pulled == [] and list(tmp_path.iterdir()) == []
    fixture.resolve(DEBIAN)
    assert fixture.resolve(DEBIAN, act=False) == "bootstrap:debian/bookworm", "what is known counts"
    image = Image("sha256:1", [CANN.reference], [f"registry.example/ascend/cann@{DIGEST}"])
    known = Fixture(tmp_path, image)
    assert known.resolve(CANN, act=False).endswith(f"@{DIGEST}")
    assert image.names == [CANN.reference], "not even a tag"
