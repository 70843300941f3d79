"""Who may import whom among our packages (DESIGN: data and imports go one way)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = {
    "grstack",
    "tasks",
    "gr_model",
    "gr_ops",
    "hybrid_torchrec",
    "torchrec_embcache",
    "smoke_tests",
    "tests",
    "benchmarks",
}
MAY_IMPORT = {
    "tasks.py": {"grstack"},
    "grstack": {"grstack"},
    "gr_model": {"gr_model", "gr_ops", "hybrid_torchrec", "torchrec_embcache"},
    "smoke_tests": {"smoke_tests", "gr_model", "gr_ops"},
    "kernels/gr_ops/gr_ops": {"gr_ops"},
    "kernels/operators": set(),
    "embeddings/hybrid_torchrec": {"hybrid_torchrec", "gr_ops"},
    "embeddings/torchrec_embcache": {"torchrec_embcache", "hybrid_torchrec"},
    "recipes/torchrec": set(),
    "recipes/wheels": set(),
    "twin": set(),
}


def imports(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("place", MAY_IMPORT)
def test_imports_follow_the_arrows(place: str) -> None:
    files = [ROOT / place] if place.endswith(".py") else sorted((ROOT / place).rglob("*.py"))
    files = [file for file in files if "templates" not in file.parts]  # rendered into other rooms
    assert files
    wrong = {str(f.relative_to(ROOT)): bad for f in files if (bad := imports(f) & OURS - MAY_IMPORT[place])}
    assert wrong == {}
