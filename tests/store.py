"""The image store of an engine that is not there: what the SDK's client says of images."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import docker.errors


@dataclass
class Image:
    id: str
    names: list[str]
    digests: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def attrs(self) -> dict[str, Any]:
        return {"RepoDigests": self.digests}

    def tag(self, repository: str, tag: str) -> None:
        self.names.append(f"{repository}:{tag}")


class Store:
    """`client.images` and `client` at once."""

    def __init__(self, *images: Image) -> None:
        self.stored = list(images)

    @property
    def images(self) -> Store:
        return self

    def get(self, name: str) -> Image:
        for image in self.stored:
            if name in (image.id, *image.names, *image.digests):
                return image
        raise docker.errors.ImageNotFound(name)

    def list(self, filters: dict[str, str]) -> list[Image]:
        key, _, value = filters["label"].partition("=")
        return [image for image in self.stored if image.labels.get(key) == value]
