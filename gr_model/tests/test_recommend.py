"""Recommendations by the user's own ids: beside all scores in float64, and beside the evaluation's own hit rate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from gr_model import config as configs
from gr_model import data, recommend, train
from gr_model.run import checkpoint, data_note
from gr_model.tasks import evaluation
from gr_model.tasks.recommendation import top_items
from gr_model.tests import own_files
from gr_model.training.trainer import Trainer

TABLE = own_files.rows(users=30, items=40, count=500)
SMALL = [
    "train.batch=8",
    "train.steps=6",
    "model.dim=8",
    "model.qk_dim=8",
    "model.value_dim=8",
    "model.max_items=12",
    "data.time_unit=ms",
    "train.eval_every=0",
]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a CSV; the averaged weights are those that are evaluated."""
    folder = tmp_path_factory.mktemp("recommend")
    path = own_files.write(folder / "mine.csv", TABLE)
    where = ["--data-dir", str(folder / "data"), "--out", str(folder / "run")]
    assert train.main(["--config", "own-retrieval", *where, f"data.path={path}", *SMALL]) == 0
    return folder


@pytest.fixture(scope="module")
def trainer(place: Path) -> Trainer:
    chosen = checkpoint.find(place / "run")
    config = configs.from_json(checkpoint.read_run(chosen)["config"])
    loaded = data.load("own", place / "data", own=config.data)
    trainer = Trainer(config, loaded, CPU)
    trainer.load_state(checkpoint.load_run(chosen, trainer.state()))
    trainer.task.model.eval()
    return trainer


def test_the_best_of_all_scores_by_the_files_own_ids(place: Path, trainer: Trainer) -> None:
    assert recommend.main([str(place / "run"), "--data-dir", str(place / "data"), "--top", "5"]) == 0
    rows = own_files.read_csv(place / "run/recommendations.csv")
    histories = own_files.histories(TABLE)
    names = data_note.item_ids(place / "run")
    assert [row["rank"] for row in rows] == ["1", "2", "3", "4", "5"] * len(histories)
    assert list(dict.fromkeys(row["user"] for row in rows)) == list(histories)
    with trainer.average.in_place(), torch.no_grad():
        items = trainer.task.model.items().double()
        for number, (user, history) in enumerate(histories.items()):
            batch = trainer.task._tokens([trainer.task.data.users[number]], CPU)
            query = trainer.task.model.queries(batch, torch.tensor([batch.sequences.total - 1])).double()
            scores = dict(zip(names, (items @ query[0]).tolist()))
            seen = {item for item, _ in history[-12:]}
            best = sorted((name for name in names if name not in seen), key=lambda name: -scores[name])[:5]
            mine = [row for row in rows if row["user"] == user]
            assert [row["item"] for row in mine] == best
            assert [float(row["score"]) for row in mine] == pytest.approx([scores[name] for name in best], abs=2e-6)


def test_it_is_what_the_evaluation_counts(trainer: Trainer) -> None:
    """An item is among the first ten where the evaluation ranks it so; targets that were seen before are not shown."""
    task = trainer.task
    users = [user for user in task.users if user.items[-1] not in user.items[-13:-1]]
    with trainer.average.in_place(), torch.no_grad():
        chunks = task.model.eval().item_chunks(7)
        found, _ = top_items(task, chunks, [user[:-1] for user in users], 10, CPU)
        batch = task._tokens([user[:-1] for user in users], CPU)
        ordered = [users[b] for b in batch.order]
        query = task.model.queries(batch, batch.sequences.offsets_B1[1:] - 1)
        ranks = evaluation.target_ranks(query, chunks, task.targets(ordered), *task.seen(ordered))
    want = dict(zip(batch.order, (ranks <= 10).tolist()))
    assert [user.items[-1] in row for user, row in zip(users, found)] == [want[n] for n in range(len(users))]
    assert {True, False} == set(want.values())


def test_a_catalogue_that_is_used_up_gives_less(trainer: Trainer) -> None:
    (user,) = trainer.task.users[:1]
    found, scores = top_items(trainer.task, trainer.task.model.eval().item_chunks(16), [user], 60, CPU)
    left = trainer.task.data.items - len(set(user.items[-12:].tolist()))
    assert (found[0] >= 0).sum() == left and np.isinf(scores[0]).sum() == 60 - left
    assert len(set(found[0, :left].tolist())) == left


def test_a_ranking_run_is_refused(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = [
        *SMALL,
        f"data.path={place / 'mine.csv'}",
        "data.actions=event",
        "ranking.tasks=buy",
        "ranking.held_out=3",
        "train.steps=1",
    ]
    where = ["--data-dir", str(tmp_path / "data"), "--out", str(tmp_path / "run")]
    assert train.main(["--config", "own-ranking", *where, *settings]) == 0
    assert recommend.main([str(tmp_path / "run"), "--data-dir", str(tmp_path / "data")]) == 1
    assert "is a ranking run, which scores items that it is given; valid: retrieval" in capsys.readouterr().err


def test_a_folder_without_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend.main([str(tmp_path)]) == 1
    assert "no whole checkpoint is there" in capsys.readouterr().err
