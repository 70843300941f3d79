"""Sharded models saved and loaded by ranks; run by test_models.py: model_ranks.py FOLDER"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from children import one_thread, ranks

sys.path.insert(0, str(Path(__file__).parents[1] / "distributed"))

from hybrid_torchrec.checkpoint import Checkpointer  # noqa: E402
from hybrid_torchrec.checkpoint.models import DenseState, table_shards  # noqa: E402
from sharded_data import make_batch  # noqa: E402
from sharded_model import hash_model  # noqa: E402
from sharded_program import ROWS, Case, shard, specs  # noqa: E402
from small_tables import all_rows, assert_same_rows  # noqa: E402

CPU = torch.device("cpu")
KINDS = ("bags.rowwise_adagrad.mixed.4", "sequences.adam.rows.4")


def new_model(name: str, world: int) -> torch.nn.Module:
    case = Case.of(name)
    return shard(hash_model(case.module, specs(case.optimizer), torch.device("meta")), case, CPU, world)


def train(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, first: int, last: int, rank: int, world: int
) -> None:
    for step in range(first, last):
        optimizer.zero_grad()
        batch = make_batch(step, rank, world, ROWS, every_row=False, static=False, weighted=False)
        model(batch)[0].backward()
        optimizer.step()


def optimizer_of(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam([value for name, value in model.named_parameters() if "over" in name], lr=0.1)


def trained(root: Path, name: str) -> None:
    """On two ranks: saved at 2, trained on to 4; loaded, and trained to 4."""

    def work(rank: int) -> None:
        whole = new_model(name, 2)
        optimizer = optimizer_of(whole)
        checkpointer = Checkpointer(root / name, table_shards(whole))
        for last in (1, 2):
            train(whole, optimizer, last - 1, last, rank, 2)
            save = checkpointer.save if last == 1 else checkpointer.save_delta
            save(last, {"model": DenseState(whole), "optimizer": optimizer})
        train(whole, optimizer, 2, 4, rank, 2)

        resumed = new_model(name, 2)
        other = optimizer_of(resumed)
        assert (
            Checkpointer(root / name, table_shards(resumed)).load(
                {"model": DenseState(resumed), "optimizer": _with_state(other)}
            )
            == 2
        )
        train(resumed, other, 2, 4, rank, 2)
        expected, found = table_shards(whole), table_shards(resumed)
        assert expected.keys() == found.keys() and len(found) >= 2, found.keys()
        for table, part in expected.items():
            assert len(part.table), table
            assert_same_rows(all_rows(found[table].table), all_rows(part.table))
        dense, again = DenseState(whole).state_dict(), DenseState(resumed).state_dict()
        assert dense.keys() == again.keys() == {"over.weight", "over.bias"}, dense.keys()
        assert all(torch.equal(value, again[key]) for key, value in dense.items())
        torch.save(
            {table: (part.table.step, all_rows(part.table).named_tensors()) for table, part in expected.items()},
            root / f"{name}.{rank}.pt",
        )
        Checkpointer(root / name, found).save(4, {"model": DenseState(resumed), "optimizer": other})

    assert ranks(2, str(root), work) == [0, 0]


def loaded_by_three(root: Path, name: str) -> None:
    """Each row of the two ranks is on one of three."""

    def work(rank: int) -> None:
        model = new_model(name, 3)
        Checkpointer(root / name, table_shards(model)).load({"model": DenseState(model)})
        torch.save(
            {table: all_rows(part.table).named_tensors() for table, part in table_shards(model).items()},
            root / f"{name}.of3.{rank}.pt",
        )

    assert ranks(3, str(root), work) == [0] * 3
    before: dict[str, list[dict[str, torch.Tensor]]] = {}
    after: dict[str, list[dict[str, torch.Tensor]]] = {}
    for rank in range(2):
        for table, (_, rows) in torch.load(root / f"{name}.{rank}.pt").items():
            before.setdefault(table, []).append(rows)
    for rank in range(3):
        for table, rows in torch.load(root / f"{name}.of3.{rank}.pt").items():
            after.setdefault(table, []).append(rows)
    assert before.keys() == after.keys()
    for table in before:
        joined = []
        for parts in (before[table], after[table]):
            rows = {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
            order = rows["ids"].argsort()
            joined.append({key: value[order] for key, value in rows.items()})
        assert all(torch.equal(value, joined[1][key]) for key, value in joined[0].items()), table


def _with_state(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Adam makes its state at the first step; a load needs the places."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    return optimizer


def main(root: Path) -> None:
    one_thread()
    for name in KINDS:
        trained(root, name)
        loaded_by_three(root, name)
        print(f"{name}: ok", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
