"""The labels of an image by the OCI image specification: its plan's and its commit's; others are in its Dockerfile."""

from __future__ import annotations

from pathlib import Path

from grstack.ask import ask
from grstack.evidence.table import RESULTS
from grstack.plan import Plan

PREFIX = "org.opencontainers.image"


def of_plan(plan: Plan) -> dict[str, str]:
    """version: the key of the image, which names all that it was built from; base.*: what it stands on."""
    found = {f"{PREFIX}.version": plan.image.short_key, f"{PREFIX}.base.name": plan.base.partition("@")[0]}
    _, _, digest = plan.base.partition("@")
    return {**found, **({f"{PREFIX}.base.digest": digest} if digest else {})}


def of_checkout(root: Path) -> dict[str, str]:
    """created: the commit's time, not the clock's, so that one commit makes one image.

    Empty where `root` is no git checkout, and where it is not as its commit says: that would name another's sources
    (results, which `inv test --slow` writes between two builds, are in no image). No source: the address of a
    checkout's origin may be a private one, and such never land in an image.
    """
    top = ask(["git", "-C", str(root), "rev-parse", "--show-toplevel"])
    status = ["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"]
    changed = ask([*status, "--", ".", f":(exclude){RESULTS}"])
    found = ask(["git", "-C", str(root), "log", "-1", "--format=%H %cI"])
    if top.code or found.code or changed.output or Path(top.output.strip()) != root.resolve():
        return {}
    revision, created = found.output.split()
    return {f"{PREFIX}.revision": revision, f"{PREFIX}.created": created}
