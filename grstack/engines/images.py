"""The images of this user that no plan needs any more: what they are, and their removal."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

from grstack.engines.names import DEVEL, KEY
from grstack.spec import PLATFORMS, TARGETS


@dataclass(frozen=True, kw_only=True)
class Image:
    identity: str
    tags: tuple[str, ...]
    key: str
    created: float  # seconds since the epoch
    unique_bytes: int  # not shared with other images; what several share is freed with the last of them

    @property
    def name(self) -> str:
        return ", ".join(self.tags) or f"untagged {self.identity.removeprefix('sha256:')[:12]}"


class Images(Protocol):
    def all(self) -> list[Image]:
        """Every image that bears a key of grstack."""
        ...

    def remove(self, image: Image) -> str:
        """An empty text, or why it is still there (a container uses it, another image builds on it)."""
        ...


class DockerImages:
    def __init__(self, client: Any) -> None:
        self.client = client

    def all(self) -> list[Image]:
        sizes = {row["Id"]: row["Size"] - max(row["SharedSize"], 0) for row in self.client.df()["Images"] or ()}
        found = self.client.images.list(filters={"label": KEY})
        return [
            Image(
                identity=image.id,
                tags=tuple(image.tags),
                key=image.labels[KEY],
                created=_seconds(image.attrs["Created"]),
                unique_bytes=sizes.get(image.id, 0),
            )
            for image in found
        ]

    def remove(self, image: Image) -> str:
        import docker.errors

        try:
            for name in image.tags or (image.identity,):
                self.client.images.remove(name)
        except docker.errors.ImageNotFound:
            return ""
        except docker.errors.APIError as error:
            return str(error.explanation or error)
        return ""


def _seconds(created: str) -> float:
    """The engine writes nanoseconds, which fromisoformat of Python 3.10 does not take."""
    text = created.split(".")[0].removesuffix("Z")
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc).timestamp()


def outdated(images: Collection[Image], *, keep: Collection[str], ours: Collection[str], before: float) -> list[Image]:
    """Built by this user, named by no current plan, and not of the last minutes. `grstack/<target>:<platform>`, which
    commands run, is never among them."""
    return [
        image
        for image in images
        if image.key in ours
        and image.key not in keep
        and image.created < before
        and not any(_runs(tag) for tag in image.tags)
    ]


def _runs(tag: str) -> bool:
    repository, _, version = tag.rpartition(":")
    named = re.sub(r"-py[0-9.]+$", "", version.removesuffix(DEVEL))
    return repository.startswith("grstack/") and named in (*PLATFORMS, *TARGETS)
