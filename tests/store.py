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
    others: list[Image] = field(default_factory=list, repr=False, compare=False)  # of the same store

    @property
    def attrs(self) -> dict[str, Any]:
        return {"RepoDigests": self.digests}

    @property
    def tags(self) -> list[str]:
        return self.names

    def tag(self, repository: str, tag: str) -> None:
        """A name stands for one image: it leaves the one that had it."""
        for image in (self, *self.others):
            image.names[:] = [name for name in image.names if name != f"{repository}:{tag}"]
        self.names.append(f"{repository}:{tag}")


class Store:
    """`client.images` and `client` at once."""

    def __init__(self, *images: Image) -> None:
        self.stored = list(images)
        for image in images:
            image.others = self.stored
        self.registry: dict[str, str] = {}  # what registries have: digests by tag
        self.answer: dict[str, Any] = {}  # what `docker info` says

    def info(self) -> dict[str, Any]:
        return self.answer

    @property
    def images(self) -> Store:
        return self

    def get(self, name: str) -> Image:
        for image in self.stored:
            if name in (image.id, *image.names, *image.digests):
                return image
        raise docker.errors.ImageNotFound(name)

    def get_registry_data(self, name: str) -> Image:
        if name not in self.registry:
            raise docker.errors.NotFound(name)
        return Image(self.registry[name], [])

    def list(self, filters: dict[str, str]) -> list[Image]:
        key, _, value = filters["label"].partition("=")
        return [image for image in self.stored if image.labels.get(key) == value]
