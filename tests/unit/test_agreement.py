"""What stands in two places because neither can read the other says the same in both."""

from __future__ import annotations

import re
from pathlib import Path

from grstack import spec

ROOT = Path(__file__).resolve().parents[2]
SPEC = spec.load(ROOT / "versions.yaml")


def test_twin_says_the_cann_version_that_it_stands_for() -> None:
    """torch_npu reads version.info and refuses what it does not pair with; versions.yaml checks that pair."""
    info = (ROOT / "twin/runtime/version.info").read_text(encoding="utf-8")
    platforms = SPEC.targets["npu"].platforms
    assert re.findall(r"^Version=(.*)$", info, re.MULTILINE) == [platforms["twin"].cann]
    assert platforms["twin"].cann == platforms["cann"].cann
