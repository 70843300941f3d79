"""What mypy cannot see of the back ends: a class of C++, devices without launches to share, and who chooses."""

import inspect

import pytest
import torch
from hybrid_torchrec import HashTable, TableConfig
from hybrid_torchrec.backends.base import Backend
from hybrid_torchrec.backends.choice import choose
from hybrid_torchrec.backends.cpu import CpuBackend
from hybrid_torchrec.backends.ids import IdIndex
from hybrid_torchrec.backends.torch import TorchBackend
from hybrid_torchrec.table import TableGroup

CONFIG = TableConfig(name="t", dim=4, initial_capacity=4)
CPU = torch.device("cpu")


def test_the_index_of_the_cpu_has_every_call_of_the_protocol() -> None:
    index = torch.classes.hybrid_torchrec.HashIndex(0)
    calls = {name for name in vars(IdIndex) if inspect.isfunction(getattr(IdIndex, name)) and not name.startswith("_")}
    assert len(calls) > 20
    assert {name for name in calls if not hasattr(index, name)} == set()


def test_the_cpu_has_its_own_kernels() -> None:
    assert type(choose(CONFIG, CPU)) is CpuBackend
    assert type(choose(CONFIG, CPU, host_ids=True)) is CpuBackend


@pytest.mark.parametrize("kind", [CpuBackend, TorchBackend])
def test_a_batch_is_admitted_then_inserted(kind: type[TorchBackend]) -> None:
    """As the core does it, without the core."""
    backend: Backend = kind(CONFIG, CPU)
    batch = backend.admit(torch.tensor([7, -1, 7, 2**62]), 1)
    assert batch.rows_needed == 3 and (batch.slots < 0).all() and len(backend.ids) == 0
    slots = batch.insert()
    assert slots.tolist() == [1, 2, 1, 3] and len(backend.ids) == backend.ids.insertions == 3
    again = backend.admit(torch.tensor([-1, 5]), 2)
    assert again.rows_needed == 1 and again.slots.tolist() == [2, -1]
    again.cancel()
    assert backend.ids.look_up(torch.tensor([5, 7])).tolist() == [0, 1] and backend.ids.insertions == 3


def test_tables_of_the_cpu_share_no_launches() -> None:
    table = HashTable(CONFIG)
    assert table.kind is None
    with pytest.raises(ValueError, match="no launches to share"):
        table.backend.group([table.backend])
    with pytest.raises(ValueError, match="one CUDA device"):
        TableGroup([table])
