"""What kustomize makes of each overlay of deploy/kubernetes, kept so that it is looked at where no kubectl is.

`python -m tests.golden.manifests` writes it anew (with kubectl 1.27 or newer: an older one has an older kustomize).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from grstack.keys import of_tree

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy/kubernetes"
KEPT = Path(__file__).parent
SOURCES = KEPT / "sources.sha256"
OVERLAYS = sorted(path.name for path in (FOLDER / "overlays").iterdir())


def render(folder: Path) -> str:
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kept(overlay: str) -> Path:
    return KEPT / f"{overlay}.yaml"


def digest() -> str:
    """Of the sources from which the kept manifests are rendered."""
    return of_tree(FOLDER)
