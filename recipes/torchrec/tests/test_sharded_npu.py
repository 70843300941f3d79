"""Two processes, NPU and hccl, against one unsharded process in plain torch, and against CPU and gloo.

The sharded program divides gradients by the number of ranks, so the reference trains on the mean of both losses.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import sharded_training as program  # noqa: E402
from torch import Tensor, nn  # noqa: E402

PROGRAM = Path(program.__file__)
RATE = 0.1
EPS = 1e-8


def reference(optimizer: str) -> dict[str, object]:
    """Unsharded training: tables are plain parameters, Adagrad is row-wise (one sum of squares per row)."""
    tables = {name: table.requires_grad_() for name, table in program.make_tables().items()}
    squares = {name: torch.zeros(table.size(0)) for name, table in tables.items()}
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
                table -= RATE * grad
        losses.append([float(loss) for loss in step_losses])
    return {"losses": losses, "over": over.weight.detach(), **{n: t.detach() for n, t in tables.items()}}


def run(device: str, module: str, sharding: str, optimizer: str, pythonpath: str, out: Path) -> dict[str, object]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{pythonpath}:{os.environ.get('PYTHONPATH', '')}"}
    if device == "npu":
        env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "1"
        if "TWIN_LIB64" in os.environ:
            env["LD_LIBRARY_PATH"] = f"{os.environ['TWIN_LIB64']}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    argv = [sys.executable, str(PROGRAM), "--device", device, "--module", module, "--sharding", sharding]
    argv += ["--optimizer", optimizer, "--out", str(out)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-6000:]
    result: dict[str, object] = torch.load(out, weights_only=True)
    return result


def assert_equal(got: dict[str, object], expected: dict[str, object]) -> None:
    torch.testing.assert_close(torch.tensor(got["losses"]), torch.tensor(expected["losses"]), rtol=1e-5, atol=1e-5)
    for name in (*program.TABLES, "over"):
        assert isinstance(got[name], Tensor)
        torch.testing.assert_close(got[name], expected[name], rtol=1e-5, atol=1e-5)


CASES = [
    ("bags", "table_wise", "adagrad"),
    ("bags", "row_wise", "sgd"),
    ("bags", "row_wise", "adagrad"),
    ("bags", "column_wise", "sgd"),
    ("bags", "data_parallel", "dense"),
    ("bags", "table_wise", "dense"),
    ("sequences", "table_wise", "adagrad"),
    ("sequences", "row_wise", "sgd"),
]


@pytest.mark.twin
@pytest.mark.parametrize(("module", "sharding", "optimizer"), CASES)
def test_npu_equals_unsharded_cpu(module: str, sharding: str, optimizer: str, patched: str, tmp_path: Path) -> None:
    got = run("npu", module, sharding, optimizer, patched, tmp_path / "npu.pt")
    assert all("/npu:" in placement for placement in got["placements"])  # type: ignore[attr-defined]
    assert_equal(got, reference(optimizer))


@pytest.mark.twin
def test_npu_hccl_equals_cpu_gloo(patched: str, tmp_path: Path) -> None:
    """Table-wise only: gloo has no reduce_scatter, so torchrec shards no rows on the CPU."""
    npu = run("npu", "bags", "table_wise", "sgd", patched, tmp_path / "npu.pt")
    cpu = run("cpu", "bags", "table_wise", "sgd", patched, tmp_path / "cpu.pt")
    assert_equal(npu, cpu)


def test_cpu_gloo_equals_unsharded(patched: str, tmp_path: Path) -> None:
    """The reference itself, checked where no NPU is needed."""
    assert_equal(run("cpu", "bags", "table_wise", "sgd", patched, tmp_path / "cpu.pt"), reference("sgd"))
