"""Lookup with fused update: HashTable, ids included, beside fbgemm's static CPU table; and the memory's speed."""

from collections.abc import Iterator

import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen
from hybrid_torchrec import HashTable, OptimizerSpec, TableConfig

from .stream import Duel, PowerLaw

BAG = 8
PEERS = {
    "sgd": EmbOptimType.EXACT_SGD,
    "adagrad": EmbOptimType.EXACT_ADAGRAD,
    "rowwise_adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
}


class Pair:
    """The same rows in both tables."""

    def __init__(self, kind: str, rows: int, dim: int, stream: PowerLaw) -> None:
        spec = OptimizerSpec(kind=kind, lr=0.01, eps=1e-8)
        self.hashed = HashTable(TableConfig(name="t", dim=dim, initial_capacity=rows, optimizer=spec))
        self.static = SplitTableBatchedEmbeddingBagsCodegen(
            [(rows, dim, EmbeddingLocation.HOST, ComputeDevice.CPU)],
            optimizer=PEERS[kind],
            learning_rate=0.01,
            eps=1e-8,
            pooling_mode=PoolingMode.SUM,
        )
        weights = self.static.split_embedding_weights()[0]
        for first in range(0, rows, 1 << 16):
            slots = self.hashed.assign(stream.ids[first : first + (1 << 16)], train=True)
            weights[first : first + (1 << 16)] = self.hashed.lookup(slots)


def duels(rows: int, dim: int, batch: int, rounds: int) -> Iterator[Duel]:
    stream = PowerLaw(rows)
    ranks = [stream.ranks(batch) for _ in range(rounds)]
    ids = [stream.ids[r] for r in ranks]
    offsets = torch.arange(0, batch + 1, BAG)
    gradient = torch.randn(batch // BAG, dim)
    for kind in PEERS:
        pair = Pair(kind, rows, dim, stream)

        def ours(i: int, pair: Pair = pair) -> None:
            slots = pair.hashed.assign(ids[i], train=True)
            pair.hashed.embed_pooled(slots, offsets, "sum").backward(gradient)

        def theirs(i: int, pair: Pair = pair) -> None:
            pair.static(ranks[i], offsets).backward(gradient)

        name = f"{kind}: ids, lookup, update; {rows:,} x {dim}, {batch:,} ids"
        yield Duel(name=name, peer="fbgemm static TBE (no ids)", unit="ids/s", amount=batch, ours=ours, theirs=theirs)
        mine = pair.hashed.lookup(pair.hashed.find(stream.ids[:1000]))
        other = pair.static.split_embedding_weights()[0][:1000]
        # Both have taken the same steps, whose number is that of the rounds.
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)


def bandwidth(rows: int, dim: int, batch: int, rounds: int) -> Iterator[Duel]:
    """Distinct random rows of a table far larger than the caches, bytes at least moved: a row once read by the lookup,
    once read and once written by the update. The peer: torch.index_select into memory that is there."""
    table = HashTable(
        TableConfig(name="t", dim=dim, initial_capacity=rows, optimizer=OptimizerSpec(kind="sgd", lr=0.01))
    )
    for first in range(0, rows, 1 << 16):
        table.assign(torch.arange(first, min(rows, first + (1 << 16))), train=True)
    slots = [torch.randperm(rows)[:batch] + 1 for _ in range(2 * rounds)]
    offsets = torch.arange(0, batch + 1, BAG)
    gradient = torch.randn(batch // BAG, dim)
    target = torch.empty(batch, dim)

    def step(i: int) -> None:
        table.embed_pooled(slots[i], offsets, "sum").backward(gradient)

    def ours(i: int) -> None:
        step(2 * i)
        step(2 * i + 1)

    def gather(i: int) -> None:
        for k in range(3):
            torch.index_select(table.weights, 0, slots[2 * i + k % 2], out=target)

    # The peer moves a row twice; three of its calls are as many bytes as two of ours.
    row = dim * 4
    yield Duel(
        name=f"lookup and SGD update of distinct rows, {rows:,} x {dim}",
        peer="torch.index_select",
        unit="B/s",
        amount=6 * batch * row,
        ours=ours,
        theirs=gather,
        asked=0.8,
    )
