"""The kept manifests are of the present sources, and what kustomize makes of them."""

from __future__ import annotations

import shutil

import pytest

from tests.golden.manifests import FOLDER, KEPT, OVERLAYS, SOURCES, digest, kept, render


def test_every_overlay_is_kept_as_the_present_sources_give_it() -> None:
    assert sorted(file.stem for file in KEPT.glob("*.yaml")) == OVERLAYS
    assert SOURCES.read_text(encoding="utf-8").strip() == digest(), (
        "deploy/kubernetes changed; next, on a machine with kubectl: python -m tests.golden.manifests"
    )


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl: kustomize is part of it")
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_makes_what_is_kept(overlay: str) -> None:
    assert kept(overlay).read_text(encoding="utf-8") == render(FOLDER / "overlays" / overlay)
