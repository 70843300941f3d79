"""The page for users says what is so: its blocks run, its errors and files exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import hybrid_torchrec.checkpoint.errors as errors
import pytest
from children import without_devices

PAGE = Path(__file__).parents[4] / "docs/dynamic-embeddings.md"


def test_the_blocks_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 8
    names: dict[str, object] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), names)
    told = capsys.readouterr().out
    assert "hit_rate{table=user}" in told and "checkpoints/full-000000000050" in told and "'waits_for_base': ''" in told


@pytest.mark.parametrize("module", ["hybrid_torchrec.serving.server", "hybrid_torchrec.checkpoint.compact"])
def test_the_commands_are_there(module: str):
    assert f"python -m {module}" in PAGE.read_text()
    argv = [sys.executable, "-m", module, "--help"]
    run = subprocess.run(argv, capture_output=True, text=True, timeout=300, env=without_devices())
    assert run.returncode == 0, run.stderr


def test_the_errors_are_there():
    for name in re.findall(r"`(\w+(?:Failure|Checkpoint|Chain|Mismatch))`", PAGE.read_text()):
        assert hasattr(errors, name), name
