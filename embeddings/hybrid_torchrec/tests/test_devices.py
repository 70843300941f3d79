"""The same calls on the CPU and on each other device of this environment, and through PyTorch's operators alone."""

import pytest
import torch
from hybrid_torchrec import LFU, HashTable, Normal, OptimizerSpec, TableConfig
from hybrid_torchrec.backends.npu import NpuBackend, available
from hybrid_torchrec.backends.torch import GenericBackend
from hybrid_torchrec.optimizers import KINDS

STEPS = 6


def train(kind: str, dim: int, device: str, generic: bool) -> tuple[list[torch.Tensor], HashTable]:
    """Pooled and unpooled steps on a table that grows and evicts; the results of the lookups."""
    config = TableConfig(
        name="t",
        dim=dim,
        optimizer=OptimizerSpec(kind=kind, lr=0.05),
        initializer=Normal(std=0.5),
        initial_capacity=4,
        max_rows=60,
        eviction=LFU(),
    )
    table = HashTable(config, device)
    if generic:
        table._backend = GenericBackend(config, table._storage)
    generator = torch.Generator().manual_seed(0)
    results = []
    for step in range(STEPS):
        ids = (torch.rand(40, generator=generator) ** 2 * 80).long() - 7
        slots = table.assign(ids, train=True)
        assert slots.device.type == device.split(":")[0]
        if step % 2:
            out = table.embed(slots)
        else:
            offsets = torch.tensor([0, 5, 5, 22, 40], device=device)
            factors = torch.rand(40, generator=generator).to(device) if step % 4 else None
            out = table.embed_pooled(slots, offsets, "mean" if step % 4 else "sum", factors)
        results.append(out.detach().cpu())
        out.backward(torch.randn(out.shape, generator=generator).to(device))
    assert table.evictions > 0 and table.capacity <= 61
    return results, table


@pytest.mark.parametrize("dim", [8, 20])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("generic", [False, True], ids=["best", "generic"])
def test_equal_to_the_cpu(kind: str, dim: int, generic: bool, device: str) -> None:
    expected, reference = train(kind, dim, "cpu", generic=False)
    results, table = train(kind, dim, device, generic)
    for got, want in zip(results, expected, strict=True):
        # The second updates of a batch see the first ones' rounding: relative 1e-6, and as much absolutely.
        torch.testing.assert_close(got, want, rtol=2e-6, atol=1e-6)
    rows, others = (t.changed_since(0)[0].to("cpu").sorted_by_id() for t in (table, reference))
    for name, tensor in rows.named_tensors().items():
        torch.testing.assert_close(tensor, others.named_tensors()[name], rtol=2e-6, atol=1e-6)


def test_default_row_stays(device: str) -> None:
    """Also with decay, which moves rows whose gradient is zero."""
    for kind in KINDS:
        spec = OptimizerSpec(kind=kind, lr=0.1, weight_decay=0.1)
        table = HashTable(TableConfig(name="t", dim=8, optimizer=spec), device)
        before = table.weights[0].cpu().clone()
        slots = table.assign(torch.tensor([1, 2]), train=False)
        assert slots.tolist() == [0, 0]
        table.update(slots, torch.ones(2, 8, device=device))
        assert torch.equal(table.weights[0].cpu(), before)
        assert all((tensor[0] == 0).all() for tensor in table.state.values())


def test_the_npu_has_its_own_backend(device: str) -> None:
    table = HashTable(TableConfig(name="t", dim=8), device)
    assert isinstance(table._backend, NpuBackend) == (device != "cpu")
    assert not available(torch.device("cpu"))
