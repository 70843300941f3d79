"""The limits of an image's layers, against what the engine says that they are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from grstack import labels, layers
from grstack.errors import StepError
from grstack.evidence.table import RESULTS
from grstack.locks import Lock
from grstack.plan import make_plan
from grstack.spec import TARGETS
from tests.project import make_lock, make_project

ROOT = Path(__file__).resolve().parents[2]
TEXT = """\
FROM scratch
# at most 200 MB
COPY --from=system / /
# at most 10 MB
# why it is there
COPY --from=packages --chmod=755 /a  /b
RUN true
"""


def layer(made_by: str, megabytes: float) -> dict[str, object]:
    return {"CreatedBy": made_by, "Size": int(megabytes * 1e6)}


FITTING = [layer("RUN /bin/sh -c true # buildkit", layers.OTHERS), layer("COPY /a /b # buildkit", 10)]
SYSTEM = "COPY / / # buildkit"


def test_a_limit_is_that_of_the_line_below_it() -> None:
    assert layers.limits(TEXT) == {"COPY / /": 200, "COPY /a /b": 10}
    layers.check([*FITTING, layer(SYSTEM, 200), layer("ENV A=1", 0)], TEXT, "docker/x/Dockerfile")


def test_a_line_may_go_on() -> None:
    text = "FROM x\n# at most 9 MB\nRUN --mount=type=bind,target=/context \\\n    a  b \\\n    && c\n"
    assert layers.limits(text) == {"RUN a b && c": 9}
    layers.check([layer("RUN /bin/sh -c a  b     && c # buildkit", 9)], text, "docker/x/Dockerfile")
    with pytest.raises(StepError, match="10 MB, at most 9"):
        layers.check([layer("RUN /bin/sh -c a  b     && c # buildkit", 10)], text, "docker/x/Dockerfile")


@pytest.mark.parametrize(
    ("large", "said"),
    [
        (layer(SYSTEM, 201), "COPY / /: 201 MB, at most 200"),
        (layer("COPY /a /b # buildkit", 11), "COPY /a /b: 11 MB, at most 10"),
        (layer("RUN /bin/sh -c pip install more # buildkit", 65), "RUN pip install more: 65 MB, at most 64"),
    ],
)
def test_a_layer_that_is_too_large_fails_the_build(large: dict[str, object], said: str) -> None:
    with pytest.raises(StepError, match="too large") as failed:
        layers.check([*FITTING, large], TEXT, "docker/x/Dockerfile")
    assert [line.strip() for line in str(failed.value).splitlines()[1:2]] == [said]


def test_a_dockerfile_without_limits_has_none() -> None:
    layers.check([layer("COPY huge / # buildkit", 1e6)], "FROM scratch\nCOPY huge /\n", "docker/x/Dockerfile")


BELOW = """\
ARG ENVIRONMENT
# at most 200 MB: the distribution
# at most 900 MB: the packages, of which
# there are many
FROM ${ENVIRONMENT}
# at most 5 MB
COPY src /src
"""


def test_the_layers_below_from_have_limits_each(tmp_path: Path) -> None:
    assert layers.limits_below(BELOW) == [(200, "the distribution"), (900, "the packages, of which")]
    assert layers.limits(BELOW) == {"COPY src /src": 5}
    fitting = [layer("ENV A=1", 0), layer("RUN pip", 900), layer("ENV B=1", 0), layer("COPY / /", 200)]
    layers.check_below(fitting, BELOW, "docker/x/Dockerfile")


@pytest.mark.parametrize(
    ("lower", "said"),
    [
        ([layer("RUN pip", 901), layer("COPY / /", 200)], "the packages, of which: 901 MB, at most 900"),
        ([layer("RUN pip", 900), layer("COPY / /", 201)], "the distribution: 201 MB, at most 200"),
        ([layer("RUN pip", 901)], "the packages, of which: 901 MB, at most 900"),  # on a base of others
        ([layer("RUN a", 1), layer("RUN b", 1), layer("COPY / /", 1)], "3 layers below it, and limits for 2"),
    ],
)
def test_a_layer_below_from_that_is_too_large_fails_the_build(lower: list[dict[str, object]], said: str) -> None:
    with pytest.raises(StepError, match="too large") as failed:
        layers.check_below(lower, BELOW, "docker/x/Dockerfile")
    assert [line.strip() for line in str(failed.value).splitlines()[1:2]] == [said]


def test_limits_below_from_have_others_above_it_too() -> None:
    text = BELOW.replace("# at most 5 MB\n", "")
    with pytest.raises(StepError, match="65 MB, at most 64"):
        layers.check([layer("COPY src /src # buildkit", 65)], text, "docker/x/Dockerfile")


@pytest.mark.parametrize("target", TARGETS)
def test_every_layer_of_an_image_has_a_limit(target: str) -> None:
    """The environment has three layers: the distribution, CUDA's libraries, the packages."""
    text = (ROOT / f"docker/{target}/Dockerfile").read_text(encoding="utf-8")
    assert len(layers.limits_below(text)) == 3
    assert "COPY / /" in layers.limits((ROOT / "docker/devel/Dockerfile").read_text(encoding="utf-8"))


def test_labels_name_the_commit_and_its_time_and_no_private_address(tmp_path: Path) -> None:
    assert labels.of_checkout(tmp_path) == {}, "no checkout"
    time = "2026-01-02T03:04:05+01:00"

    def git(*words: str) -> str:
        env = {**os.environ, "GIT_COMMITTER_DATE": time}
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        argv = ["git", "-C", str(tmp_path), *who, *words]
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "kernel.cpp").write_text("1")
    result = tmp_path / RESULTS / "slow-tests.json"
    result.parent.mkdir(parents=True)
    result.write_text("1")
    git("add", ".")
    git("commit", "-qm", "first")
    git("remote", "add", "origin", "https://me:secret@private.example.org/grstack.git")
    wanted = {"revision": git("rev-parse", "HEAD"), "created": time}
    assert labels.of_checkout(tmp_path) == {f"org.opencontainers.image.{name}": v for name, v in wanted.items()}
    (tmp_path / "unpacked").mkdir()
    assert labels.of_checkout(tmp_path / "unpacked") == {}, "in another's checkout"
    result.write_text("2")
    assert labels.of_checkout(tmp_path), "a new result is no other source"
    (tmp_path / "kernel.cpp").write_text("2")
    assert labels.of_checkout(tmp_path) == {}, "not what the commit says"


def test_labels_name_the_key_and_the_base(tmp_path: Path) -> None:
    root = make_project(tmp_path)
    lock: Lock = make_lock()
    for base, expected in (
        ("debian@sha256:12", {"base.name": "debian", "base.digest": "sha256:12"}),
        ("bootstrap:debian/bookworm", {"base.name": "bootstrap:debian/bookworm"}),
    ):
        plan = make_plan(root, lock=lock, platform="twin", base=base, build="plain", components=(), operators={})
        wanted = {"version": plan.image.short_key, **expected}
        assert labels.of_plan(plan) == {f"org.opencontainers.image.{name}": value for name, value in wanted.items()}
