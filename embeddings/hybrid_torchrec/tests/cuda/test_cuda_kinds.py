"""The numbers of optimizers, initialisers and policies mean to the CUDA kernels what they mean elsewhere."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hybrid_torchrec import Constant, Normal, OptimizerSpec, RowBatch, TableConfig, TruncatedNormal, Uniform
from hybrid_torchrec.backends.cuda import row_kernels, update_kernels
from hybrid_torchrec.kinds import EVICTIONS, INITIALIZERS, listed
from hybrid_torchrec.optimizers import KINDS
from interpreted import DeviceTable

sys.path.insert(0, str(Path(__file__).parents[1]))

from kinds_reference import DIM, NAMES, ROWS, after_steps, first_rows, gradients, pretending, spec_of  # noqa: E402


def made(optimizer: OptimizerSpec) -> tuple[DeviceTable, torch.Tensor]:
    table = DeviceTable(TableConfig(name="t", dim=DIM, optimizer=optimizer))
    slots = table.assign(torch.arange(1, ROWS), train=True)
    rows, _ = table.read(torch.arange(1, ROWS))
    weights = first_rows()[1:].to(table.device)
    table.write(RowBatch.from_named_tensors({**rows.named_tensors(), "weights": weights}))
    return table, slots


def test_the_kernels_numbers() -> None:
    kernels = {getattr(update_kernels, name.upper()).value: name for name in update_kernels.KERNEL_KINDS}
    assert kernels == NAMES
    drawn = (row_kernels.CONSTANT, row_kernels.UNIFORM, row_kernels.NORMAL, row_kernels.TRUNCATED_NORMAL)
    assert [kind.value for kind in drawn] == [0, 1, 2, 3]
    assert [kind.kind for kind in (Constant, Uniform, Normal, TruncatedNormal)] == [0, 1, 2, 3]


@pytest.mark.parametrize("number", NAMES)
def test_a_number_means_the_same_to_the_kernels_and_to_pytorch(number: int) -> None:
    table, slots = made(spec_of(number))
    for g in gradients():
        table.update(slots, g.to(table.device))
    torch.testing.assert_close(table.lookup(slots).cpu().double(), after_steps(number)[1:], rtol=1e-5, atol=1e-6)


def test_an_unknown_kind_is_refused_before_any_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that the table of kinds has, but no kernel."""
    from hybrid_torchrec import optimizers

    table, slots = made(OptimizerSpec(kind="adam"))
    before = table.lookup(slots)
    sophia = dataclasses.replace(optimizers.KINDS["adam"], name="sophia", number=len(KINDS))
    kinds = {**optimizers.KINDS, "sophia": sophia}
    monkeypatch.setattr(optimizers, "KINDS", kinds)
    object.__setattr__(table.config.optimizer, "kind", pretending("sophia").kind)
    with pytest.raises(ValueError, match="unknown optimizer 'sophia'; valid: sgd.*lion"):
        table.update(slots, gradients()[0].to(table.device))
    assert torch.equal(table.lookup(slots), before)


def test_an_unknown_initialiser_is_refused_before_any_launch() -> None:
    class Cauchy(Normal):
        kind = len(INITIALIZERS)

    table = DeviceTable(TableConfig(name="t", dim=DIM, initializer=Normal()))
    object.__setattr__(table.config, "initializer", Cauchy())
    with pytest.raises(
        ValueError, match=rf"unknown kind {Cauchy.kind}; valid: {re.escape(str(list(range(Cauchy.kind))))}"
    ):
        table.assign(torch.arange(3), train=True)


@pytest.mark.parametrize("number", [len(EVICTIONS), -1])
def test_an_unknown_ranking_is_refused(number: int) -> None:
    table, _ = made(OptimizerSpec())
    with pytest.raises(ValueError, match=f"unknown eviction policy {number}; valid: {re.escape(listed(EVICTIONS))}"):
        table.index.victims(2, number, 1.0, 0.0, 1.0, 0, 2, torch.empty(0, dtype=torch.int64))


@pytest.mark.parametrize(
    ("kernel", "number"), [("update_runs", len(KINDS)), ("update_long_runs", -1), ("start", len(INITIALIZERS))]
)
def test_the_compiler_refuses_a_kernel_without_a_step(kernel: str, number: int, tmp_path: Path) -> None:
    """In a process without the interpreter."""
    program = (
        "import compile_kernels as c\n"
        "kernels = [k for module in (c.row_kernels, c.update_kernels) for k in c.kernels(module)]\n"
        f"kernel = next(k for k in kernels if k.fn.__name__ == {kernel!r})\n"
        "choices = {name: c.CHOICES[name][0] for name in kernel.arg_names if name in c.CHOICES}\n"
        f"c.compile_one(kernel, {{**choices, 'KIND': {number}}})\n"
    )
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    folder = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", program], env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode != 0 and "CompileTimeAssertionFailure" in done.stderr, done.stderr[-2000:]
