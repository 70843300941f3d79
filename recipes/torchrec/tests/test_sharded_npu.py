"""Two processes, NPU and hccl, against one unsharded process in plain torch, and against CPU and gloo.

The sharded program divides gradients by the number of ranks, so the reference trains on the mean of both losses.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import forked_ranks
import pytest
import sharded_training as program
import torch
from grid.port import reserved
from sharded_training import Case
from torch import Tensor, nn

RATE = 0.1
EPS = 1e-8
TIME_LIMIT = 300  # seconds; without load all cases take ten


def reference(optimizer: str) -> dict[str, object]:
    """Unsharded training: tables are plain parameters, Adagrad is row-wise (one sum of squares per row), Adam moves the
    rows of a batch alone."""
    tables = {name: table.requires_grad_() for name, table in program.make_tables().items()}
    squares = {name: torch.zeros(table.size(0)) for name, table in tables.items()}
    moments = {name: torch.zeros(2, *table.shape) for name, table in tables.items()}
    over = program.Model("bags", torch.device("meta")).over
    losses = []
    for step in range(program.STEPS):
        step_losses = []
        for rank in range(program.RANKS):
            values, lengths, target = program.make_batch(step, rank)
            offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
            pooled = []
            for feature, name in enumerate(n for n, (_, fs) in program.TABLES.items() for _ in fs):
                start, stop = feature * program.BATCH, (feature + 1) * program.BATCH
                here = values[offsets[start] : offsets[stop]]
                bags = offsets[start:stop] - offsets[start]
                pooled.append(nn.functional.embedding_bag(here, tables[name], bags, mode="sum"))
            step_losses.append((over(torch.cat(pooled, dim=1)).squeeze(1) - target).square().mean())
        grads = torch.autograd.grad(sum(step_losses) / program.RANKS, [*tables.values(), *over.parameters()])
        with torch.no_grad():
            for parameter, grad in zip(over.parameters(), grads[len(tables) :], strict=True):
                parameter -= RATE * grad
            for (name, table), grad in zip(tables.items(), grads, strict=False):
                if optimizer == "adagrad":
                    squares[name] += grad.square().mean(dim=1)
                    grad = grad / (squares[name].sqrt() + EPS).unsqueeze(1)
                if optimizer == "adam":
                    grad = adam(grad, moments[name], step + 1)
                table -= RATE * grad
        losses.append([float(loss) for loss in step_losses])
    return {"losses": losses, "over": over.weight.detach(), **{n: t.detach() for n, t in tables.items()}}


def adam(grad: Tensor, moments: Tensor, step: int) -> Tensor:
    """The way of each row; rows without gradient stay where they are. moments [2, rows, D] are updated."""
    touched = grad.any(dim=1)
    first, second = moments
    first[touched] = 0.9 * first[touched] + 0.1 * grad[touched]
    second[touched] = 0.999 * second[touched] + 0.001 * grad[touched].square()
    way = first / (1 - 0.9**step) / ((second / (1 - 0.999**step)).sqrt() + EPS)
    return torch.where(touched.unsqueeze(1), way, 0.0)


def start(
    kind: str, cases: list[Case], pythonpath: str, folder: Path, file: str = program.__file__
) -> dict[Case, dict[str, object] | str]:
    """Trains all cases in one start of the two processes; a case that has no result gets what the processes said."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{pythonpath}:{os.environ.get('PYTHONPATH', '')}"}
    env.update(MASTER_ADDR="127.0.0.1", WORLD_SIZE=str(program.RANKS))
    if kind == "npu":
        env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "1"
        if "TWIN_LIB64" in os.environ:
            env["LD_LIBRARY_PATH"] = f"{os.environ['TWIN_LIB64']}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    argv = [file, kind, str(folder), *(case.name for case in cases)]
    logs = [folder / f"rank{rank}.log" for rank in range(program.RANKS)]
    ranked = [{"RANK": str(rank)} for rank in range(program.RANKS)]
    with reserved() as port:
        env["MASTER_PORT"] = str(port)
        processes = forked_ranks.start("torch,torchrec", argv, env, ranked, logs)
        deadline = time.monotonic() + TIME_LIMIT
        codes = []
        for process in processes:
            try:
                codes.append(process.wait(max(0.1, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                process.kill()
                codes.append(process.wait())
    said = f"the processes ended with {codes}\n" + "\n".join(log.read_text()[-4000:] for log in logs)
    results: dict[Case, dict[str, object] | str] = {}
    for case in cases:
        result = folder / f"{case.name}.pt"
        results[case] = torch.load(result, weights_only=True) if result.exists() and codes == [0, 0] else said
    return results


def assert_equal(got: dict[str, object] | str, expected: dict[str, object]) -> None:
    assert not isinstance(got, str), got
    torch.testing.assert_close(torch.tensor(got["losses"]), torch.tensor(expected["losses"]), rtol=1e-5, atol=1e-5)
    for name in (*program.TABLES, "over"):
        assert isinstance(got[name], Tensor)
        torch.testing.assert_close(got[name], expected[name], rtol=1e-5, atol=1e-5)


# Table-wise on both: gloo has no reduce_scatter, so torchrec shards no rows on the CPU.
BOTH = Case("bags", "table_wise", "sgd")
CASES = [
    BOTH,
    Case("bags", "table_wise", "adagrad"),
    Case("bags", "row_wise", "sgd"),
    Case("bags", "row_wise", "adagrad"),
    Case("bags", "row_wise", "adam"),
    Case("bags", "column_wise", "sgd"),
    Case("bags", "data_parallel", "dense"),
    Case("bags", "table_wise", "dense"),
    Case("sequences", "table_wise", "adagrad"),
    Case("sequences", "row_wise", "sgd"),
    Case("sequences", "table_wise", "adam"),
]


@pytest.fixture(scope="module")
def on_npu(patched: str, tmp_path_factory: pytest.TempPathFactory) -> dict[Case, dict[str, object] | str]:
    return start("npu", CASES, patched, tmp_path_factory.mktemp("npu"))


@pytest.fixture(scope="module")
def on_cpu(patched: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object] | str:
    return start("cpu", [BOTH], patched, tmp_path_factory.mktemp("cpu"))[BOTH]


@pytest.mark.twin
@pytest.mark.npus(program.RANKS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_npu_equals_unsharded_cpu(case: Case, on_npu: dict[Case, dict[str, object] | str]) -> None:
    got = on_npu[case]
    assert_equal(got, reference(case.optimizer))
    assert all("/npu:" in placement for placement in got["placements"])


@pytest.mark.twin
@pytest.mark.npus(program.RANKS)
def test_npu_hccl_equals_cpu_gloo(on_npu: dict[Case, dict[str, object] | str], on_cpu: dict[str, object] | str) -> None:
    assert not isinstance(on_cpu, str), on_cpu
    assert_equal(on_npu[BOTH], on_cpu)


@pytest.mark.twin
@pytest.mark.npus(program.RANKS)
@pytest.mark.parametrize("aten", ["override", "aclnn"])
def test_a_program_that_never_imports_gr_ops_has_its_operators(
    patched: str, tmp_path: Path, aten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWIN_ATEN", aten)
    cases = [Case("bags", "row_wise", "adagrad"), Case("sequences", "row_wise", "sgd")]
    results = start("npu", cases, patched, tmp_path, str(Path(program.__file__).with_name("loaded_operators.py")))
    for case in cases:
        assert_equal(results[case], reference(case.optimizer))
    for rank in range(program.RANKS):
        said = (tmp_path / f"rank{rank}.log").read_text()
        assert "CAUTION" not in said and "fall back" not in said, said
        (packages,) = [line for line in said.splitlines() if line.startswith("operator packages:")]
        assert "mxrec_asynchronous_complete_cumsum" in packages.split(), said


def test_cpu_gloo_equals_unsharded(on_cpu: dict[str, object] | str) -> None:
    """The reference itself, checked where no NPU is needed."""
    assert_equal(on_cpu, reference(BOTH.optimizer))
