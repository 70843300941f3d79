"""The README's program runs, and prints the figures that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from torchrec_embcache import CacheTooSmall

README = Path(__file__).parents[1] / "README.md"


def test_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = [
        block for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL) if "print(" in block
    ]
    exec(compile(program, README.name, "exec"), {})
    told = capsys.readouterr().out
    for name in (
        "cache_hit_rate",
        "fetched_rows",
        "prefetch_wait_seconds",
        "bytes_to_device",
        "occupancy",
        "evictions",
    ):
        assert f"{name}{{table=item}}" in told, name
    assert (tmp_path / "checkpoints/full-000000000020").is_dir() and (tmp_path / "tables/item/table.json").is_file()


def test_the_errors_are_there() -> None:
    import torchrec_embcache

    named = set(re.findall(r"`((?:Store|Cache)[A-Z]\w+)`", README.read_text()))
    assert CacheTooSmall.__name__ in named and len(named) >= 5
    for name in named:
        assert hasattr(torchrec_embcache, name), name
