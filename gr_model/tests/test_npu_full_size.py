"""The source article's preset at its full size, 32 users of 8,000 tokens with the relative bias, fits a 910B.

Every allocation of a training step is made on the emulated device; nothing is computed (TWIN_COMPUTE=off).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.twin, pytest.mark.emulated]
PROGRAM = Path(__file__).with_name("full_size_program.py")
ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "kernels/operators/hstu_dense_forward/README.md"
PRECISIONS = ("fp32", "bf16")
MEMORY = 64 << 30  # of an Ascend 910B1 to 910B3
ITEMS = 20_000
KUAIRAND_1K = 4_369_953  # items of its log
BYTES_OF_AN_ITEM = 4 * 512 * 4  # weight, gradient and two moments of Adam in fp32


def peak(precision: str, items: int) -> int:
    """Bytes that torch_npu's allocator has taken from the device at most."""
    settings = {"TWIN_COMPUTE": "off", "TWIN_ATEN": "aclnn", "TASK_QUEUE_ENABLE": "0", "TWIN_NPU_MEMORY": str(MEMORY)}
    environment = {**os.environ, **settings, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, str(PROGRAM), precision, str(items)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["tokens"] == [32 * 8000] * 2
    return int(found["peak"])


def said(precision: str) -> float:
    """GB without the table, by the operator's page."""
    found = re.search(r"in fp32 and bf16 \(([\d.]+) and ([\d.]+) GB\s+without the table\)", README.read_text())
    assert found is not None
    return float(found.groups()[PRECISIONS.index(precision)])


def test_the_program_names_its_precisions() -> None:
    assert f"python full_size_program.py {'|'.join(PRECISIONS)} ITEMS" in PROGRAM.read_text()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_step_of_the_articles_preset_fits(precision: str) -> None:
    few, more = peak(precision, ITEMS), peak(precision, 2 * ITEMS)
    table = (KUAIRAND_1K - ITEMS) * BYTES_OF_AN_ITEM
    print(f"{precision}: {few / 1e9:.1f} GB with {ITEMS} items, {(few + table) / 1e9:.1f} GB with those of KuaiRand-1K")
    assert more - few <= 1.1 * ITEMS * BYTES_OF_AN_ITEM
    assert few + table < MEMORY
    assert (few - ITEMS * BYTES_OF_AN_ITEM) / 1e9 == pytest.approx(said(precision), abs=0.05)
