"""Recommendations by the user's own ids: beside all scores in float64, and beside the evaluation's own hit rate."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from gr_model import config as configs
from gr_model import data, recommend, train
from gr_model.run import checkpoint, data_note
from gr_model.tasks import evaluation
from gr_model.tasks.recommendation import top_items
from gr_model.tests import conftest, own_files
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
    told = capsys.readouterr().err
    assert "no whole checkpoint is there" in told and "next:" not in told


def test_a_folder_that_holds_runs_names_one(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest, by the link `latest` where a run has set it; one without a checkpoint is none."""
    where = ["--data-dir", str(tmp_path / "data")]
    shutil.copytree(place / "run", tmp_path / "b")
    shutil.copytree(place / "run", tmp_path / "a")
    os.utime(tmp_path / "b/run-id.json", (1, 1))
    shutil.copytree(place / "run", tmp_path / "empty", ignore=shutil.ignore_patterns("checkpoints"))
    assert recommend.main([str(tmp_path), *where]) == 1
    assert f"has a folder of its own; the same command with {tmp_path}/a\n" in capsys.readouterr().err
    (tmp_path / "latest").symlink_to("b")
    assert recommend.main([str(tmp_path), *where]) == 1
    assert f"has a folder of its own; the same command with {tmp_path}/latest\n" in capsys.readouterr().err


def test_it_says_how_far_it_is(place: Path, monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    times = itertools.count(0.0, 10.0)
    monkeypatch.setattr("gr_model.common.ticker.time.monotonic", lambda: next(times))
    monkeypatch.setattr(recommend, "BATCH", 16)
    assert recommend.main([str(place / "run"), "--data-dir", str(place / "data"), "--top", "5"]) == 0
    users = len(own_files.histories(TABLE))
    told = capsys.readouterr().out.splitlines()
    begun = told.index(f"the best 5 of {len(data_note.item_ids(place / 'run'))} items for each of {users} users")
    assert told[begun + 1 : -1] == [f"{min(done, users)} of {users} users so far" for done in range(16, users + 16, 16)]


FILMS = {str(7 * n % 41): f'Film, "{n}"' for n in range(40)}  # ids in no order, titles with the CSV's own signs


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, str, int]]]:
    """A run on ML-100K's files, and their ratings as (user, film, time)."""
    folder = tmp_path_factory.mktemp("films")
    place = folder / "data/ml-100k"
    place.mkdir(parents=True)
    rng = np.random.default_rng(4)
    users = [str(900 - 13 * n) for n in range(12)]
    rows = [(user, film, 10**9 + t) for user in users for t, film in enumerate(rng.choice([*FILMS], 9, replace=False))]
    (place / "ml-100k.user").write_text(conftest.USER + "".join(f"{user}\t24\tM\twriter\t1\n" for user in users))
    (place / "ml-100k.item").write_text(
        conftest.ITEM + "".join(f"{film}\t{title}\t1995\tDrama\n" for film, title in FILMS.items())
    )
    mixed = [rows[n] for n in rng.permutation(len(rows))]
    lines = "".join(f"{user}\t{film}\t{1 + n % 5}\t{time}\n" for n, (user, film, time) in enumerate(mixed))
    (place / "ml-100k.inter").write_text(conftest.INTER + lines)
    where = ["--data-dir", str(folder / "data"), "--out", str(folder / "run")]
    settings = [setting for setting in SMALL if not setting.startswith("data.")]
    assert train.main(["--config", "ml-100k-retrieval", *where, *settings]) == 0
    return folder, rows


def test_films_by_their_ids_and_titles(films: tuple[Path, list[tuple[str, str, int]]]) -> None:
    """The order is that of all scores in float64 by the weights of the films, which are found by their lines."""
    folder, ratings = films
    out = folder / "some.csv"
    asked = ["835", "900", "835"]
    options = [word for user in asked for word in ("--user", user)]
    where = ["--data-dir", str(folder / "data"), "--out", str(out), "--top", "4"]
    assert recommend.main([str(folder / "run"), *where, *options]) == 0
    rows = own_files.read_csv(out)
    assert [row["user"] for row in rows] == ["835"] * 4 + ["900"] * 4
    assert [row["title"] for row in rows] == [FILMS[row["item"]] for row in rows]
    chosen = checkpoint.find(folder / "run")
    config = configs.from_json(checkpoint.read_run(chosen)["config"])
    trainer = Trainer(config, data.load("ml-100k", folder / "data"), CPU)
    trainer.load_state(checkpoint.load_run(chosen, trainer.state()))
    trainer.task.model.eval()
    lines = {film: line for line, film in enumerate(FILMS)}
    with trainer.average.in_place(), torch.no_grad():
        items = trainer.task.model.items().double()
        for user, number in (("835", 5), ("900", 0)):  # the lines of the users' file
            seen = [film for name, film, time in sorted(ratings, key=lambda row: row[2]) if name == user]
            history = trainer.task.data.users[number]
            assert history.items.tolist() == [lines[film] for film in seen]
            batch = trainer.task._tokens([history], CPU)
            query = trainer.task.model.queries(batch, torch.tensor([batch.sequences.total - 1])).double()
            scores = (items @ query[0]).tolist()
            best = sorted((film for film in FILMS if film not in seen), key=lambda film: -scores[lines[film]])[:4]
            assert [row["item"] for row in rows if row["user"] == user] == best


def test_a_user_who_is_not_in_the_data(
    films: tuple[Path, list], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run, name, known in ((films[0], "7", "ml-100k"), (place, "nobody", "mine.csv")):
        assert recommend.main([str(run / "run"), "--data-dir", str(run / "data"), "--user", name]) == 1
        assert f"--user {name}: {known} has no interaction of that user" in capsys.readouterr().err
