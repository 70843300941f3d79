"""A program that knows CUDA only trains on two NPUs as it does on the CPU, with our operators behind fbgemm's names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from forked_ranks import meeting, wait

PROGRAM = Path(__file__).with_name("cuda_recommender.py")
STEPS, RANKS = 8, 2
TIME_LIMIT, PATIENCE = 240.0, 5.0
# Launches of a step: two layers, each with three to dense and one back, and their gradients the other way round.
OURS = {"AsynchronousCompleteCumsum": 1, "JaggedToPaddedDense": 8, "DenseToJagged": 8}


def train(kind: str, precision: str, folder: Path) -> tuple[list[list[float]], str]:
    """The losses of each rank, and what the processes said."""
    env = {**os.environ, "WORLD_SIZE": str(RANKS)}
    env |= {"OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(kind == "cuda"))}
    env |= {"TWIN_COUNTS": str(folder / f"{precision}-%r.jsonl")} if kind == "cuda" else {}
    files = [folder / f"{kind}-{precision}-{rank}.txt" for rank in range(RANKS)]
    logs = [file.with_suffix(".log") for file in files]
    running = []
    with meeting() as place:
        for rank, (file, log) in enumerate(zip(files, logs, strict=True)):
            argv = [sys.executable, str(PROGRAM), kind, precision, str(STEPS), str(file)]
            own = {**env, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            with log.open("w") as output:
                running.append(subprocess.Popen(argv, env=own, stdout=output, stderr=subprocess.STDOUT))
        codes = wait(running, TIME_LIMIT, PATIENCE)
    said = "\n".join(log.read_text() for log in logs)
    assert codes == [0] * RANKS, f"the ranks ended with {codes}\n{said[-6000:]}"
    return [[float(line) for line in file.read_text().split()] for file in files], said


@pytest.mark.npus(RANKS)
@pytest.mark.parametrize(
    ("precision", "tolerance"), [("fp32", 1e-5), pytest.param("bf16", 1e-2, marks=pytest.mark.slow)]
)
def test_two_npus_have_the_losses_of_two_cpus(tmp_path: Path, precision: str, tolerance: float) -> None:
    found, said = train("cuda", precision, tmp_path)
    expected, _ = train("cpu", precision, tmp_path)
    for losses, ours in zip(expected, found, strict=True):
        assert ours == pytest.approx(losses, rel=tolerance)
        assert losses[-1] < 0.95 * losses[0]
    assert "fall back to run on the CPU" not in said and "CAUTION" not in said, said[-4000:]
    for counts in tmp_path.glob(f"{precision}-*.jsonl"):  # an emulated NPU's
        launches = json.loads(counts.read_text().splitlines()[-1])["launches"]["custom"]
        assert {name: launches.get(name, 0) // STEPS for name in OURS} == OURS
