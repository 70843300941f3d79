"""Tables of kind hash and embcache in one process: against static ones and each other, saved, limited, pipelined."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hybrid_torchrec import distributed
from hybrid_torchrec.distributed.placement import ColumnShard

from gr_model import config
from gr_model.config import (
    Config,
    ConfigError,
    EmbeddingConfig,
    ModelConfig,
    RankingConfig,
    RetrievalConfig,
    TrainConfig,
    presets,
)
from gr_model.data.loader import Work
from gr_model.embedding import dynamic_tables
from gr_model.run import checkpoint
from gr_model.run.checkpoint import RunCheckpointError
from gr_model.runtime.world import World
from gr_model.tests.distributed_program import random_data
from gr_model.training.steps import StepResult
from gr_model.training.trainer import Trainer

CPU = torch.device("cpu")
ITEMS, STEPS = 2000, 50
HASH = EmbeddingConfig(kind="hash", optimizer="adagrad", lr=0.05)
CACHED = dataclasses.replace(HASH, kind="embcache", cache_rows=400)


def trainer(embedding: EmbeddingConfig, task: str = "retrieval", **settings: object) -> Trainer:
    ranking = task == "ranking"
    return Trainer(
        Config(
            task=task,
            embedding=embedding,
            model=ModelConfig(dim=8, qk_dim=8, value_dim=8, max_items=16, interleave=ranking),
            retrieval=RetrievalConfig(negatives=16),
            ranking=RankingConfig(held_out=2),
            train=TrainConfig(**{"batch": 7, "lr": 1e-2, "deterministic": True, **settings}),
        ),
        random_data(ITEMS),
        CPU,
    )


def table(run: Trainer):
    ((_, _, part),) = dynamic_tables.local_shards(run.task.model)
    return part.table


def losses(run: Trainer, steps: int) -> list[float]:
    works = run.loader().works(run.step, run.step + steps)
    found = [result.loss for result in run.train_steps(works)]
    assert len(set(found)) == len(found) == steps  # nothing stands still
    return found


def rows(run: Trainer) -> dict[str, torch.Tensor]:
    held = table(run)
    return held.read(held.ids())[0].sorted_by_id().named_tensors()


@pytest.mark.parametrize("task", ["retrieval", "ranking"])
def test_hash_equals_static(task: str) -> None:
    """The static table starts with the rows that the hash table would make, and takes torch's step of Adagrad."""
    grown, static = trainer(HASH, task), trainer(EmbeddingConfig(), task)
    everywhere = dict(static.task.model.named_parameters())
    item = everywhere.pop("preprocess.item.weight")
    made = table(grown).config
    with torch.no_grad():
        item.copy_(made.initializer.rows(torch.arange(ITEMS), 8, made.seed))
        for name, parameter in everywhere.items():
            parameter.copy_(grown.dense[name])
    assert everywhere.keys() == grown.dense.keys()
    dense, sparse = static.optimizer, torch.optim.Adagrad([item], lr=HASH.lr, eps=HASH.eps)
    dense.param_groups[0]["params"] = [p for p in dense.param_groups[0]["params"] if p is not item]
    step = dense.step
    dense.step = lambda: (step(), sparse.step(), item.__setattr__("grad", None))
    expected = losses(static, STEPS)
    assert losses(grown, STEPS) == pytest.approx(expected, rel=1e-5)
    assert 300 < len(table(grown)) <= ITEMS
    seen = table(grown).ids().sort().values
    rows_VD = torch.cat(list(grown.task.model.preprocess.item.all_rows(333)))
    # Adagrad's first step is as long for a gradient that is a rounding error as for any other.
    torch.testing.assert_close(rows_VD[seen], item[seen], rtol=0, atol=1e-3)


def test_embcache_equals_hash_to_the_last_bit() -> None:
    """Also with tiers below that hold most of the rows."""
    resident, cached = trainer(HASH), trainer(CACHED)
    assert losses(resident, STEPS) == losses(cached, STEPS)
    assert table(cached).metrics.counters().evicted_rows > 500
    left, right = rows(resident), rows(cached)
    assert left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)
    assert resident.evaluate() == cached.evaluate()
    cached.close()


@pytest.mark.parametrize("count", [ITEMS // 16, ITEMS // 16 - 1])
@pytest.mark.parametrize("ranks", [1, 3])
def test_distinct_ids_and_their_places(count: int, ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the host, by marks where the table is small for so many ids; those of one process after those of another."""
    item = trainer(HASH).task.model.preprocess.item
    assert item.ids_device(torch.device("cuda")) == CPU
    shard = ColumnShard(table="item", column=0, width=8, ranks=tuple(range(ranks)))
    monkeypatch.setattr(dynamic_tables, "sharded_tables", lambda _: [SimpleNamespace(shards=(shard,))])
    item.world = World(size=ranks)
    marked = count >= ITEMS // 16
    for step in range(2):  # the marks of one step are not those of the next
        generator = torch.Generator().manual_seed(step)
        ids = torch.randint(0, ITEMS, (count,), generator=generator)
        sets = ids[:60].view(3, 20), ids[60:]
        distinct_U, places = item.asked(*sets)
        assert torch.equal(distinct_U.sort().values, ids.unique())
        for part, place in zip(sets, places, strict=True):
            assert torch.equal(distinct_U[place], part)
        owner_U = shard.owner(distinct_U)
        assert bool((owner_U.diff() >= 0).all()) == (marked or ranks == 1)
        assert ("_marks" in vars(item)) == marked


def test_all_rows_are_the_trained_ones_and_the_default_row_for_ids_that_were_not_seen() -> None:
    run = trainer(HASH)
    losses(run, 3)
    held = table(run)
    default = held.config.initializer.default_row(8, held.config.seed)
    trained, there = held.read(torch.arange(ITEMS))
    assert 0 < int(there.sum()) < ITEMS
    expected = default.repeat(ITEMS, 1)
    expected[there] = trained.weights
    for chunk in (7, ITEMS, 10 * ITEMS):
        assert torch.equal(torch.cat(list(run.task.model.preprocess.item.all_rows(chunk))), expected)
    before = len(held)
    run.evaluate()
    assert len(held) == before  # an evaluation makes no rows


KINDS = {
    "hash": HASH,
    "hash, adam": dataclasses.replace(HASH, optimizer="adam"),
    "hash, limited": dataclasses.replace(HASH, max_rows=500, eviction="lru", admission="after"),
    "embcache": CACHED,
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("pipeline", ["none", "sparse_dist"])
def test_a_checkpoint_goes_on_with_the_same_losses(tmp_path: Path, name: str, pipeline: str) -> None:
    whole = trainer(KINDS[name], pipeline=pipeline)
    expected = losses(whole, 20)
    first = trainer(KINDS[name], pipeline=pipeline)
    works = first.loader().works(0, 20)
    steps = first.train_steps(works)
    assert [next(steps).loss for _ in range(10)] == expected[:10]
    folder = checkpoint.save_run(tmp_path, first.state(), World(), run="a")
    second = trainer(KINDS[name], pipeline=pipeline)
    losses(second, 2)  # rows that the checkpoint must replace
    second.load_state(checkpoint.load_run(folder, second.state()))
    assert second.step == 10
    assert losses(second, 10) == expected[10:]
    for run in (whole, first, second):
        run.close()


@pytest.mark.parametrize("name", KINDS)
def test_the_pipeline_changes_no_bit(name: str) -> None:
    """Dropout draws from torch's generator here; evaluations come while batches are in flight."""
    results = []
    for pipeline in ("none", "sparse_dist"):
        run = trainer(KINDS[name], pipeline=pipeline, deterministic=False)
        found = []
        for result in run.train_steps(run.loader().works(0, 20)):
            found.append(result.loss)
            if result.step % 7 == 0:
                found.append(run.evaluate())
        results.append(found)
        assert set(result.seconds) >= {"data", "batch", "forward", "backward", "optimizer"}
        assert ("distribution" in result.seconds) == (pipeline != "none")
        run.close()
    assert results[0] == results[1]


def test_the_pipeline_of_a_gpu_makes_batches_behind_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bit changes; the batch after the next is taken when the step has been launched."""
    made = distributed.HybridTrainPipelineSparseDist

    def late(*given: Any, **more: Any) -> Any:
        return made(*given, **{**more, "read_late": True})

    monkeypatch.setattr(distributed, made.__name__, late)
    found, order = {}, []
    for pipeline in ("none", "sparse_dist"):
        run = trainer(HASH, pipeline=pipeline, deterministic=False)
        order.clear()

        def works(run: Trainer = run) -> Iterator[Work]:
            for work in run.loader().works(0, 20):
                order.append(("taken", work.step))
                yield work

        def finish(*given: Any, run: Trainer = run, finished: Any = run.finish) -> StepResult:
            order.append(("done", run.step))
            return finished(*given)

        run.finish = finish
        found[pipeline] = []
        for result in run.train_steps(works()):
            found[pipeline].append(result.loss)
            if result.step % 7 == 0:
                found[pipeline].append(run.evaluate())
    assert found["sparse_dist"] == found["none"] and len(order) == 40
    assert order[:6] == [("taken", 0), ("taken", 1), ("done", 0), ("taken", 2), ("done", 1), ("taken", 3)]


def test_policies() -> None:
    limited = trainer(dataclasses.replace(HASH, max_rows=500, eviction="lfu"))
    losses(limited, 10)
    assert table(limited).evictions > 0 and len(table(limited)) <= 500
    after = trainer(dataclasses.replace(HASH, admission="after", admit_after=3))
    losses(after, 2)
    assert len(table(after)) == 0
    losses(after, 8)
    assert 0 < len(table(after)) < len(table(limited)) * 2
    zeros = trainer(dataclasses.replace(HASH, initializer="zeros", lr=1e-9))
    losses_of_zeros = zeros.train_step().loss
    assert losses_of_zeros > 0 and rows(zeros)["weights"].abs().max() < 1e-8


def test_a_run_starts_without_the_rows_that_another_left_on_disk(tmp_path: Path) -> None:
    cached = dataclasses.replace(CACHED, host_rows=100, folder=str(tmp_path / "rows"))
    first = trainer(cached)
    expected = losses(first, 10)
    first.close()
    second = trainer(cached)
    assert losses(second, 10) == expected
    second.close()


def test_one_file_cannot_hold_a_growing_table(tmp_path: Path) -> None:
    with pytest.raises(RunCheckpointError, match="save_run"):
        checkpoint.save(tmp_path / "one.pt", trainer(HASH).state())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["embedding.kind=embcache"], "embedding.cache_rows"),
        (["embedding.kind=embcache", "embedding.cache_rows=9", "embedding.max_rows=9"], "embedding.max_rows"),
        (["embedding.kind=embcache", "embedding.cache_rows=9", "embedding.host_rows=9"], "embedding.folder"),
        (["embedding.kind=hash", "embedding.eviction=lru"], "embedding.max_rows"),
        (["embedding.kind=sharded", "embedding.optimizer=lamb"], "embedding.optimizer"),
        (["embedding.kind=sharded", "embedding.sharding=column_wise"], "rowwise_adagrad"),
        (["embedding.kind=hashed"], "valid: static, sharded, hash, embcache"),
        (["embedding.admit_probability=0"], "embedding.admit_probability"),
        (["train.pipeline=sparse_dist"], "train.pipeline"),
    ],
)
def test_settings_that_do_not_fit(settings: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config.override(presets.get("smoke"), settings)
