"""What a training step on an NPU launches, waits for and copies, counted on the emulated one (docs/twin.md).

The bounds on launches are today's figures: lower them with what makes them smaller.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gr_model.report.counts import Counts
from gr_model.tests.counted_training import BATCH, CASES, LOG_EVERY, STEPS

pytestmark = [pytest.mark.twin, pytest.mark.emulated]

PROGRAM = Path(__file__).with_name("counted_training.py")
ROOT = Path(__file__).resolve().parents[2]
L2, LINE = 192 << 20, 512
RECORDS = 4096  # of faults, that kernels found (gr_ops.faults)
ATEN = ("override", "aclnn")  # PyTorch's operators as they are called, and as torch_npu calls CANN for them
# Without hstu_projection and hstu_gated_output 29 are called, 112 without hstu_relative too.
LAUNCHES_OF_A_LAYER = {"override": 11, "aclnn": 16}
AROUND = ("HstuProjection", "HstuProjectionBackward", "HstuGatedOutput", "HstuGatedOutputBackward")
BFLOAT16 = 1e-2  # of a loss: a mantissa of 8 bits, and means of many
LAUNCHES_OF_A_STEP = {"override": 58, "aclnn": 62}  # besides those of the layers
Trained = tuple[dict[str, list[float]], dict[str, list[Counts]], dict[str, Any]]


@pytest.fixture(scope="module", params=ATEN)
def aten(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def trained(aten: str, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Losses and counts of each step, by case; the line of the whole process."""
    path = tmp_path_factory.mktemp("counts") / "counts.jsonl"
    env = {**os.environ, "TWIN_COUNTS": str(path), "TWIN_COUNTS_L2": str(L2)}
    env |= {"OMP_NUM_THREADS": "1", "TASK_QUEUE_ENABLE": "0", "TWIN_ATEN": aten}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, str(PROGRAM)], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    *steps, total = map(json.loads, path.read_text().splitlines())
    assert [step["name"] for step in steps] == [f"step {i + 1}" for i in range(STEPS)] * len(CASES)
    counts = [Counts(step) for step in steps]
    by_case = {name: counts[index * STEPS : (index + 1) * STEPS] for index, name in enumerate(CASES)}
    return json.loads(done.stdout.splitlines()[-1]), by_case, total


@pytest.mark.parametrize("case", CASES)
def test_the_host_waits_for_losses_alone(trained, case: str) -> None:
    """And nothing else comes back: no ids, no offsets."""
    every = CASES[case].train.log_every
    for index, counts in enumerate(trained[1][case], start=1):
        read = index % every == 0
        # torch_npu waits for the stream, and copies.
        assert sorted(counts.waits.values()) == ([1, 1] if read else []), (index, counts.places)
        # Losses since the last read, and norms up to the step before.
        numbers = 2 * every - (1 if index == every else 0)
        assert counts.bytes("device_to_host") == (4 * numbers + RECORDS if read else 0), counts.places


@pytest.mark.parametrize("case", CASES)
def test_a_batch_travels_from_pinned_memory(trained, case: str) -> None:
    for counts in trained[1][case]:
        rows = [row for row in counts.copies if row["way"] == "host_to_device"]
        assert rows and all(row["pinned"] and not row["blocking"] for row in rows), rows


def test_launches(trained, aten: str) -> None:
    """The same batches with one layer and with two. The first step also makes the optimizer's state."""
    shallow, deep = (max(counts.launches for counts in trained[1][case][1:]) for case in ("shallow", "ranking"))
    assert 0 < deep - shallow <= LAUNCHES_OF_A_LAYER[aten]
    assert shallow - (deep - shallow) <= LAUNCHES_OF_A_STEP[aten]


def test_under_autocast_the_layers_take_the_same_operators(trained) -> None:
    """Rows between layers stay float32 there, beside products of bfloat16."""
    for counts, plain in zip(trained[1]["autocast"], trained[1]["ranking"], strict=True):
        for name in (*AROUND, "HstuRelativeForward", "HstuRelativeBackward"):
            assert counts.kernels[name]["launches"] == plain.kernels[name]["launches"] > 0, counts.kernels
    losses = trained[0]
    assert losses["autocast"] != losses["ranking"]
    assert losses["autocast"] == pytest.approx(losses["ranking"], rel=BFLOAT16)


def test_losses_do_not_depend_on_when_they_are_read(trained) -> None:
    losses = trained[0]
    assert losses["ranking"] == losses["read each step"] and len(set(losses["ranking"])) == STEPS


def test_what_the_operators_moved_and_multiplied(trained) -> None:
    """Offsets of BATCH int64 lengths; products of the backward are at least twice the forward's."""
    for counts in trained[1]["ranking"]:
        cumsum = counts.kernels["AsynchronousCompleteCumsum"]
        assert (cumsum["bytes_read"], cumsum["bytes_written"]) == (8 * BATCH, 8 * (BATCH + 1))
        assert (cumsum["hbm_read"], cumsum["hbm_written"]) == (LINE, LINE)
        forward, backward = (counts.kernels[f"HstuRelative{way}"] for way in ("Forward", "Backward"))
        assert forward["launches"] == backward["launches"] > 0
        for work in (forward, backward):  # q, k, v and the sums are asked for more than once
            assert 0 < work["hbm_read"] < work["bytes_read"] and 0 < work["hbm_written"] < work["bytes_written"]
        assert backward["products"] >= 2 * forward["products"] > 0
        assert all(counts.kernels[name]["launches"] == forward["launches"] for name in AROUND), counts.kernels
    assert trained[2]["steps"] == STEPS * len(CASES) and LOG_EVERY < STEPS
