"""One of several processes that train the same small model and save what every step gave (run as a program).

    RANK=0 MASTER_ADDR=... python distributed_program.py FOLDER npu:2:PORT:case,case cpu:1:PORT:case ...

A case trains STEPS steps, saves a checkpoint and evaluates after SAVED_AT and writes FOLDER/<processes>-<case>.json.
`static@2` goes on from the checkpoint that 2 processes saved of `static`. One start serves many cases, on several
numbers of processes one after the other: the imports take longest.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from gr_model.config import Config, EmbeddingConfig, ModelConfig, RankingConfig, RetrievalConfig, TrainConfig
from gr_model.data.interactions import Interactions, by_user
from gr_model.data.loader import Work
from gr_model.embedding import dynamic_tables
from gr_model.run import checkpoint
from gr_model.runtime import world
from gr_model.runtime.device import open_device
from gr_model.training.trainer import Trainer

STEPS, SAVED_AT = 20, 12  # in the middle of an epoch of five steps
ITEMS = 3000  # of tables that have only rows of ids that were seen


def random_data(items: int = 60) -> Interactions:
    """Thirty users with 6 to 40 interactions; the last batch of an epoch has 2 users."""
    rng = np.random.default_rng(1)
    counts = rng.integers(6, 41, 30)
    total = counts.sum()
    return Interactions(
        name="random",
        users=by_user(
            user=np.repeat(np.arange(30), counts),
            item=rng.integers(0, items, total),
            action=rng.integers(0, 5, total),
            time=rng.integers(10**9, 10**9 + 10**6, total),
            features=np.zeros((30, 0), np.int64),
        ),
        items=items,
        action_values=(1.0, 2.0, 3.0, 4.0, 5.0),
        feature_sizes={},
    )


def case_config(name: str, folder: Path | None = None) -> Config:
    """static, ranking, fused, heads64 (fused, with two heads of 64 columns), hash, embcache, or a sharding type of
    torchrec, with `adam-` before it by Adam; with `+` its sparse pipeline, with `bf16-` before it products in bfloat16,
    with `fsdp-` the dense part in pieces, with `&` negatives of the batch too.

    Dropout, clipping, warm-up and an average everywhere. embcache has a cache that does not hold all rows; they go to
    host memory and to disk.
    """
    kind, plus, _ = name.partition("+")
    wide, kind = not kind.startswith("bf16-"), kind.removeprefix("bf16-")
    pieces, kind = kind.startswith("fsdp-"), kind.removeprefix("fsdp-")
    kind, in_batch, _ = kind.partition("&")
    task = "ranking" if kind == "ranking" else "retrieval"
    if kind == "hash":
        embedding = EmbeddingConfig(kind="hash", lr=0.02, optimizer="adam")
    elif kind == "embcache":
        embedding = EmbeddingConfig(
            kind="embcache", lr=0.02, optimizer="adam", cache_rows=700, host_rows=100, folder=str(folder)
        )
    elif kind in ("static", "ranking", "fused", "heads64"):
        embedding = EmbeddingConfig()
    else:
        optimizer = "adagrad" if kind == "column_wise" else "rowwise_adagrad"
        if kind.startswith("adam-"):
            optimizer, kind = "adam", kind.removeprefix("adam-")
        embedding = EmbeddingConfig(kind="sharded", sharding=kind, lr=0.02, optimizer=optimizer)
    heads, width = (2, 64) if kind == "heads64" else (ModelConfig.heads, 8)
    negatives = {"negatives": 16, "in_batch": 24} if in_batch else {"negatives": 16 if embedding.dynamic else 128}
    return Config(
        task=task,
        embedding=embedding,
        model=ModelConfig(
            dim=8,
            qk_dim=width,
            value_dim=width,
            heads=heads,
            max_items=16,
            interleave=task == "ranking",
            dropout=0.2,
            attention="fused" if kind in ("fused", "heads64") else "plain",
        ),
        retrieval=RetrievalConfig(**negatives),
        ranking=RankingConfig(held_out=2),
        train=TrainConfig(
            batch=7,
            steps=STEPS,
            lr=1e-2,
            warmup=5,
            ema=0.9,
            clip=1.0,
            deterministic=True,
            parallel="fsdp" if pieces else "ddp",
            pipeline="sparse_dist" if plus else "none",
            precision="fp32" if wide else "bf16",
        ),
    )


def run(case: str, folder: Path, here: world.World) -> dict[str, object]:
    name, _, saved_by = case.partition("@")
    config = case_config(name, folder / f"disk-{here.size}-{case}")
    trainer = Trainer(config, random_data(ITEMS if config.embedding.dynamic else 60), here.device, here)
    if saved_by:
        chosen = checkpoint.find(folder / f"saved-{saved_by}" / name)
        trainer.load_state(checkpoint.load_run(chosen, trainer.state()))
    first, losses, shares, midway = trainer.step, [], [], {}

    def works() -> Iterator[Work]:
        for work in trainer.loader().works(first, STEPS):
            shares.append(len(work.share.users) if work.share.counts else 0)
            yield work

    for result in trainer.train_steps(works()):
        losses.append(result.loss)
        if trainer.step == SAVED_AT:  # with a pipeline, in the middle of its flight
            checkpoint.save_run(folder / f"saved-{here.size}" / name, trainer.state(), here, run="a")
            midway = trainer.evaluate()
    counts = here.gather(np.array(shares)).reshape(here.size, -1)
    record = {
        "first": first,
        "losses": losses,
        "midway": midway,
        "metrics": trainer.evaluate(),
        "users": counts.sum(0).tolist(),
        "phases": sorted(result.seconds),
        "on_disk": here.gather(np.array([rows_on_disk(trainer)])).tolist(),
        **placed(trainer),
    }
    trainer.close()
    return record


def rows_on_disk(trainer: Trainer) -> int:
    """Of this process's cached tables."""
    if trainer.config.embedding.kind != "embcache":
        return 0
    return sum(part.table.disk_stats().rows for _, _, part in dynamic_tables.local_shards(trainer.model))


def placed(trainer: Trainer) -> dict[str, object]:
    """How many columns of the table of items each process has, and what of the dense part is in pieces."""
    tensors = [t for t in trainer.parallel.model_state().values() if hasattr(t, "local_shards")]
    columns = sum(shard.metadata.shard_sizes[1] for tensor in tensors for shard in tensor.local_shards())
    in_pieces = sum(isinstance(weight, DTensor) for weight in trainer.dense.values())
    everyone = trainer.world.gather(np.array([columns]))
    return {"columns": everyone.tolist(), "pieces": in_pieces / len(trainer.dense)}


def main(folder: Path, parts: list[str]) -> None:
    """The parts of which this process is one. The first process, which is one of all, says when a part begins: who
    waits for that by asking for a connection asks ever more seldom."""
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    for kind, size, port, cases in (part.split(":") for part in parts):
        if rank >= int(size):
            continue
        begun = folder / f"begun-{port}"
        if rank == 0:
            begun.touch()
        while not begun.exists():
            time.sleep(0.05)
        os.environ |= {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
        train(kind, folder, cases.split(","))


def train(kind: str, folder: Path, cases: list[str]) -> None:
    device = open_device(world.local_device(kind))
    here = world.join(device)
    try:
        for name in cases:
            record = run(name, folder, here)
            if here.first:
                (folder / f"{here.size}-{name}.json").write_text(json.dumps(record))
        here.barrier()
    finally:
        world.leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
