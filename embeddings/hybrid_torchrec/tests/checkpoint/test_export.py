"""Exported tables against the tables themselves, read by our reader and by safetensors' own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hybrid_torchrec.checkpoint import CorruptCheckpoint, ServingTable, TableMismatch, TableShard, export
from hybrid_torchrec.checkpoint.export import quantised
from hybrid_torchrec.table import HashTable
from safetensors.numpy import load_file
from small_tables import DIM, EDGES, all_rows, make_table, train


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> HashTable:
    monkeypatch.setattr("hybrid_torchrec.checkpoint.parts.PART_BYTES", 2000)
    table = make_table()
    for step in range(6):
        train(table, step)
    return table


def test_every_row_and_the_default_of_all_others(tmp_path: Path, table: HashTable):
    path = export(tmp_path, 5, {"user": TableShard(table)})
    served, rows = ServingTable(path, "user"), all_rows(table)
    assert len(list(path.glob("*.safetensors"))) > 3
    assert len(served) == len(rows) and torch.equal(served.ids(), rows.ids)
    shuffled = rows.ids[torch.randperm(len(rows))]
    asked = torch.cat([torch.tensor([77]), shuffled, torch.tensor(EDGES), torch.tensor([-78, 79])])
    weights, found = served.lookup(asked)
    there = table.find(asked)
    assert torch.equal(found, there >= 0)
    assert torch.equal(weights, table.lookup(there.clamp(min=0)))
    assert not torch.equal(served.default, torch.zeros(DIM))
    nothing, none = served.lookup(torch.empty(0, dtype=torch.int64))
    assert nothing.shape == (0, DIM) and none.shape == (0,)


def test_safetensors_reads_the_files(tmp_path: Path, table: HashTable):
    path = export(tmp_path, 5, {"user": TableShard(table)})
    parts = [load_file(file) for file in sorted(path.glob("*.safetensors"))]
    ids = np.concatenate([part["ids"] for part in parts])
    weights = np.concatenate([part["weights"] for part in parts])[np.argsort(ids)]
    assert np.array_equal(weights, all_rows(table).weights.numpy())
    assert all((np.diff(part["ids"]) > 0).all() for part in parts)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_smaller_types_against_float64(tmp_path: Path, table: HashTable, dtype: str):
    rows = all_rows(table)
    served = ServingTable(export(tmp_path, 5, {"user": TableShard(table)}, dtype=dtype), "user")
    found, _ = served.lookup(rows.ids)
    exact = rows.weights.double().numpy()
    error = np.abs(found.double().numpy() - exact)
    if dtype == "int8":
        assert (error <= np.abs(exact).max(1, keepdims=True) / 127 / 2 * (1 + 1e-5)).all()
    else:
        half_step = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
        assert (error <= np.abs(exact) * half_step + 2.0**-25).all()
    assert error.max() > 0


def test_quantisation_of_odd_rows():
    values = torch.tensor([[0.0, 0.0], [1.0, -127.0], [1e-30, 2e-30], [-3.0, 3.0]])
    eight, scale = quantised(values)
    assert torch.allclose(eight * scale[:, None], values, rtol=1 / 127)
    assert eight[0].eq(0).all() and eight[1, 1] == -127 and torch.isfinite(scale).all()
    assert quantised(torch.empty(0, 4))[0].shape == (0, 4)


def test_any_name_and_shards_of_two_tables(tmp_path: Path):
    shards = {name: TableShard(make_table(name=name)) for name in ("a/b.c", "a", "a.shard")}
    for number, shard in enumerate(shards.values()):
        train(shard.table, number)
    path = export(tmp_path, 1, shards)
    for name, shard in shards.items():
        assert torch.equal(ServingTable(path, name).lookup(all_rows(shard.table).ids)[0], all_rows(shard.table).weights)


def test_an_empty_table(tmp_path: Path):
    table = make_table()
    served = ServingTable(export(tmp_path, 0, {"user": TableShard(table)}), "user")
    weights, found = served.lookup(torch.tensor([1, 2]))
    assert len(served) == 0 and not found.any()
    assert torch.equal(weights, table.lookup(torch.zeros(2, dtype=torch.int64)))


def test_damage_is_named(tmp_path: Path, table: HashTable):
    path = export(tmp_path, 5, {"user": TableShard(table)})
    with pytest.raises(TableMismatch, match="no table 'item'; there are: user"):
        ServingTable(path, "item")
    with pytest.raises(ValueError, match="float32, float16, bfloat16, int8"):
        export(tmp_path, 6, {"user": TableShard(table)}, dtype="int4")
    file = sorted(path.glob("*.safetensors"))[1]
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptCheckpoint, match=f"{file.name}: checksum .* restore the file"):
        ServingTable(path, "user")
