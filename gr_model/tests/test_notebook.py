"""The notebook that the images bring, cell by cell: what it asks of the commands, and reads of what they write."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

NOTEBOOK = Path(__file__).resolve().parents[2] / "docker/notebook/examples/train-hstu.ipynb"
COMMAND = re.compile(r"^!((?:.*\\\n)*.*)$", re.MULTILINE)
SHELL = """
import subprocess
def shell(line):
    done = subprocess.run(line, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout, flush=True)
    return done.returncode
"""


def program(**instead: str) -> str:
    """The notebook as a script. What IPython does of `!command` is done by `shell`."""
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    text = "\n".join("".join(cell["source"]) for cell in cells)
    for old, new in instead.items():
        assert text.count(old) == 1, f"{old} is there {text.count(old)} times"
        text = text.replace(old, new)
    return SHELL + COMMAND.sub(lambda match: f"_exit_code = shell(rf'''{match[1]}''')", text)


@pytest.fixture
def films(tmp_path: Path) -> Path:
    """MovieLens-100K's files with twenty users and forty films, titles with commas and quotes among them."""
    folder = tmp_path / "data/ml-100k"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    users = "".join(f"u{user}\t24\tM\twriter\t1\n" for user in range(20))
    items = "".join(f'i{item}\tFilm "{item}", The\t1995\tDrama\n' for item in range(40))
    rated = [(user, item) for user in range(20) for item in rng.permutation(40)[:12]]
    ratings = "".join(f"u{user}\ti{item}\t{rng.integers(1, 6)}\t{when}\n" for when, (user, item) in enumerate(rated))
    heads = {
        "user": "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n" + users,
        "item": "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n" + items,
        "inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + ratings,
    }
    for name, text in heads.items():
        (folder / f"ml-100k.{name}").write_text(text)
    return folder.parent


def test_every_cell_runs_and_the_last_says_so(films: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"target": "cuda"}')  # without a GPU it goes on on the CPU
    there = {
        "/data": films,
        "/out/notebook-run": tmp_path / "run",
        "/opt/grstack/manifest.json": tmp_path / "manifest.json",
    }
    places = {f'"{place}"': repr(str(instead)) for place, instead in there.items()}
    short = {"train.steps=300 train.eval_every=50": "train.steps=4 train.eval_every=2"}
    script = program(**places, **short)
    environment = {**os.environ, "GRSTACK_DATA": str(films), "MPLBACKEND": "agg", "CUDA_VISIBLE_DEVICES": ""}
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # its image has no torch_npu, most of a start's time here
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"torch {torch.__version__} on cpu" in done.stdout
    assert len(re.findall(r'^user u0, [1-5]: Film "\d+", The$', done.stdout, re.MULTILINE)) == 5, done.stdout
    assert re.search(r"^finished: hr@10 [01]\.\d{4} after 4 steps", done.stdout.splitlines()[-1])
