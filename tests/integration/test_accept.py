"""`inv accept` as a rehearsal on emulated devices: every part passes and leaves what the report shows.

Slow: `python -m pytest -m slow tests/integration/test_accept.py`, with a running engine. The smoke test is the gate's.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grstack import commands
from grstack.accept.parts import PARTS
from grstack.choices import Choices
from grstack.engines.find import answers

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.image, pytest.mark.slow]


def test_a_rehearsal_passes() -> None:
    if not answers():
        pytest.fail("this test needs a running engine; type: inv build-image")
    folder = ROOT / "build/accept/twin"
    names = [part.name for part in PARTS if part.name != "smoke"]
    code = commands.accept(Choices(), only=",".join(names), again=True)
    results = {result["part"]: result for result in json.loads((folder / "accept.json").read_text())["results"]}
    states = {name: results[name]["state"] for name in names}
    assert states == dict.fromkeys(names, "passed"), {name: results[name]["failures"] for name in names}
    assert results["smoke"]["state"] == "not run" and code == 1
    assert len(results["operator_times"]["figures"]) > 8 and results["machine"]["figures"]["emulated"]
    assert results["step_time"]["figures"]["rows"][0]["case"] == "article"
