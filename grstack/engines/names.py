"""The names of finished images: `grstack/npu:twin-<key>` is exactly one, `grstack/npu:twin` the one of a checkout."""

from __future__ import annotations

import shlex
from typing import Any

from grstack.engines.checkouts import Checkouts
from grstack.plan import Plan

DEVEL = "-devel"  # at the end of a devel variant's name
KEY = "grstack.key"  # the label of every image that we build: the key of its step


def short(plan: Plan) -> str:
    return f"grstack/{plan.target}:{plan.tag or plan.platform}{DEVEL if plan.devel else ''}"


def exact(plan: Plan) -> str:
    return f"{short(plan)}-{plan.image.short_key}"


class Names:
    """`client` is the SDK's."""

    def __init__(self, client: Any, checkouts: Checkouts) -> None:
        self.client = client
        self.checkouts = checkouts

    def key_of(self, name: str) -> str | None:
        """The key of an image; None where there is no such image, or none that we have built."""
        image = self._get(name)
        return image.labels.get(KEY) if image is not None else None

    def image_id(self, plan: Plan) -> str:
        """The id of the image that this plan made, whatever its names; empty where there is none."""
        for name in (exact(plan), short(plan)):
            if self.key_of(name) == plan.image.key:
                return str(self._get(name).id)
        found = self.client.images.list(filters={"label": f"{KEY}={plan.image.key}"})
        # an image that a user has built upon ours inherits the label
        ours = [image for image in found if all(tag.startswith("grstack/") for tag in image.tags)]
        return str(ours[0].id) if ours else ""

    def give(self, plan: Plan, *, take: bool) -> str:
        """Both names for the image of `plan`. See Engine.name_result."""
        image = self.client.images.get(self.image_id(plan))
        _tag(image, exact(plan))
        name, standing = short(plan), self._get(short(plan))
        key = standing.labels.get(KEY, "") if standing is not None else ""
        owners = self.checkouts.owners(name, key)
        self.checkouts.note(name, plan)
        if standing is None or self.checkouts.root in owners or key == plan.image.key:
            _tag(image, name)
            return ""
        if not take:
            return ""
        before = f"{name}-{key[:12]}" if key else str(standing.id)
        if key:
            _tag(standing, before)  # without a name it would be pruned
        _tag(image, name)
        if not owners:
            return f"{name} is this checkout's now; before, it was {before}, of no checkout that is known here"
        return (
            f"{name} is this checkout's now; before, it was {before}, of the checkout {owners[0]}"
            f" (to give it back: cd {shlex.quote(owners[0])} && make tag)"
        )

    def _get(self, name: str) -> Any:
        import docker.errors

        try:
            return self.client.images.get(name)
        except docker.errors.ImageNotFound:
            return None


def _tag(image: Any, name: str) -> None:
    repository, _, tag = name.rpartition(":")
    image.tag(repository, tag=tag)
