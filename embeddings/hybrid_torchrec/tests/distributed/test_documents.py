"""A program for the documents' stack runs unchanged, and trains as one with a static table does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from devices import HAS_NPU
from documents_program import (
    BATCH,
    CLASSES,
    DENSE_RATE,
    DIMS,
    EPS,
    FEATURES,
    ROWS,
    STEPS,
    TABLE_RATE,
    dense_model,
    make_batch,
    weight_init,
)
from forked_ranks import wait
from torch import nn
from torch.nn import functional

PROGRAM = Path(__file__).with_name("documents_program.py")
KINDS = [("cpu", 2), *([("npu", 1)] if HAS_NPU else [])]


def static_training(world: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses (STEPS, world) and the dense weight, in float64 and with all ranks' batches in one."""
    tables = [nn.EmbeddingBag(rows, dim, mode="mean").double() for rows, dim in zip(ROWS, DIMS)]
    for table in tables:
        weight_init(table.weight)
    dense = dense_model().double()
    optimizers = [
        torch.optim.Adagrad([table.weight for table in tables], lr=TABLE_RATE, eps=EPS),
        torch.optim.Adagrad(dense.parameters(), lr=DENSE_RATE),
    ]
    losses = []
    for step in range(STEPS):
        batches = [make_batch(step, rank) for rank in range(world)]
        of_ranks = []
        for batch in batches:
            bags = [batch.features[name] for name in FEATURES]
            rows = [table(bag.values(), bag.offsets()[:BATCH]) for table, bag in zip(tables, bags)]
            of_ranks.append(functional.cross_entropy(dense(torch.cat(rows, 1)), batch.labels))
        for optimizer in optimizers:
            optimizer.zero_grad()
        torch.stack(of_ranks).mean().backward()
        for optimizer in optimizers:
            optimizer.step()
        losses.append(torch.stack(of_ranks).detach())
    return torch.stack(losses), dense.weight.detach()


@pytest.mark.parametrize(("kind", "world"), KINDS)
def test_a_program_of_the_documents(kind: str, world: int, tmp_path: Path) -> None:
    env = {**os.environ, "WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    env |= {"TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(kind == "npu")), "TWIN_NPU_COUNT": str(world)}
    argv = [sys.executable, str(PROGRAM), kind, str(tmp_path / "store"), str(tmp_path / "result.pt")]
    processes, logs = [], [tmp_path / f"rank{rank}.log" for rank in range(world)]
    for rank, log in enumerate(logs):
        with log.open("w") as file:
            ranked = {**env, "RANK": str(rank)}
            processes.append(subprocess.Popen(argv, env=ranked, stdout=file, stderr=subprocess.STDOUT))
    assert wait(processes, 240) == [0] * world, "\n".join(log.read_text()[-3000:] for log in logs)
    trained = torch.load(tmp_path / "result.pt", weights_only=True)
    losses, weight = static_training(world)
    given = torch.tensor(trained["losses"]).T.double()
    torch.testing.assert_close(given, losses, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(trained["dense"].double(), weight, rtol=1e-5, atol=1e-6)
    assert weight.shape == (CLASSES, sum(DIMS)) and losses[-1].ne(losses[0]).all()


def test_the_documents_names() -> None:
    import hybrid_torchrec
    from hybrid_torchrec.distributed import sharding_plan
    from hybrid_torchrec.modules import hash_embeddingbag

    assert hybrid_torchrec.HashEmbeddingBagConfig is hash_embeddingbag.HashEmbeddingBagConfig
    assert hybrid_torchrec.get_default_hybrid_sharders is sharding_plan.get_default_hybrid_sharders
    for name in hybrid_torchrec.__all__:
        assert getattr(hybrid_torchrec, name) is not None, name
    with pytest.raises(AttributeError, match="no attribute 'HashThing'"):
        hybrid_torchrec.HashThing  # noqa: B018
