"""The labels of an image by the OCI image specification that its plan knows; its Dockerfile has the others."""

from __future__ import annotations

from grstack.plan import Plan

PREFIX = "org.opencontainers.image"


def of_plan(plan: Plan) -> dict[str, str]:
    """version: the key of the image, which names all that it was built from; base.*: what it stands on."""
    found = {f"{PREFIX}.version": plan.image.short_key, f"{PREFIX}.base.name": plan.base.partition("@")[0]}
    _, _, digest = plan.base.partition("@")
    return {**found, **({f"{PREFIX}.base.digest": digest} if digest else {})}
