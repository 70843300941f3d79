"""Sweeps: what may be searched, what is told without Optuna, and with it (slow) that the best trial is the best one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gr_model import sweep
from gr_model.common import in_image
from gr_model.config import ConfigError, presets

SMALL = ["dataset=planted-sequences", "synthetic.users=40", "train.steps=2", "train.eval_every=0"]
BASE = presets.get("smoke")


def test_what_is_searched() -> None:
    found = sweep.space(
        ["train.lr=1e-4..1e-2:log", "train.batch=8..64", "model.dropout=0.1,0.2", "train.deterministic=true,false"],
        BASE,
    )
    assert found == {
        "train.lr": sweep.Range(1e-4, 1e-2, log=True, whole=False),
        "train.batch": sweep.Range(8, 64, log=False, whole=True),
        "model.dropout": sweep.Choices(("0.1", "0.2")),
        "train.deterministic": sweep.Choices(("true", "false")),
    }


@pytest.mark.parametrize(
    ("search", "told"),
    [
        ("train.lrr=1e-4..1e-2", "did you mean 'train.lr'"),
        ("train.lr", "is not of the form"),
        ("train.lr=", "is not of the form"),
        ("train.lr=1e-2..1e-4", "the first number must be the smaller one"),
        ("train.lr=1e-4..fast", "train.lr: expected float, got 'fast'"),
        ("model.dropout=0.1,1.5", "model.dropout: must be in"),
        ("train.weight_decay=0..1:log", "above 0 with :log"),
        ("model.backbone=hstu..sasrec", "unknown choice 'hstu..sasrec'|a range is of numbers"),
        ("model.contextual=a,b", "a list of names"),
        ("ranking.head=mlp,linear", "nothing looks at it with task=retrieval"),
    ],
)
def test_what_cannot_be_searched(search: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        sweep.space([search], BASE)


def arguments(out: Path, *more: str) -> list[str]:
    search = ["--search", "train.lr=1e-4..1e-1:log", "--search", "model.dim=4,8"]
    return ["--config", "smoke", "--out", str(out), "--by", "ndcg@10", *search, *more, *SMALL]


@pytest.mark.parametrize("inside", [True, False])
def test_without_optuna_it_says_what_to_install(tmp_path: Path, monkeypatch, capsys, inside: bool) -> None:
    """The packages of the image belong to root."""
    monkeypatch.setattr(in_image, "inside", lambda: inside)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert sweep.main(arguments(tmp_path / "sweep")) == 1
    told = capsys.readouterr().err
    assert "a sweep needs the package optuna" in told
    want = "pip install --target /out/extra optuna, then PYTHONPATH=/out/extra:$PYTHONPATH python -m gr_model.sweep "
    assert (want if inside else "next: pip install optuna\n") in told
    assert not (tmp_path / "sweep").exists()


@pytest.fixture
def optuna(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The images have none. Beside them: the locked wheels that `inv test --slow` hands over, or the index's."""
    place = tmp_path_factory.mktemp("optuna")
    wheels = sorted(Path(os.environ.get("GRSTACK_WHEELS", "none"), "sweeps").glob("*.whl"))
    what = ["--no-index", "--no-deps", *map(str, wheels)] if wheels else ["optuna>=4"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(place), *what]
    ran = subprocess.run(pip, capture_output=True, text=True)
    if ran.returncode and not wheels:
        pytest.skip(f"no package index: {ran.stderr.splitlines()[-1]}")
    assert ran.returncode == 0, ran.stderr
    monkeypatch.setattr(sys, "path", [*sys.path, str(place)])  # what the image has comes first


@pytest.mark.slow
def test_the_best_trial_is_the_best_one(optuna, tmp_path: Path, capsys) -> None:
    out = tmp_path / "sweep"
    assert sweep.main(arguments(out, "--trials", "2")) == 0, capsys.readouterr().err
    assert sweep.main(arguments(out, "--trials", "3")) == 0, capsys.readouterr().err  # goes on: one more
    said = capsys.readouterr().out
    trials = sorted(place for place in out.glob("trial-*") if place.is_dir())
    assert [place.name for place in trials] == ["trial-0000", "trial-0001", "trial-0002"]
    scores = [json.loads((place / "metrics.json").read_text())["ndcg@10"] for place in trials]
    best = trials[scores.index(max(scores))]
    assert f"best: trial {int(best.name[-4:])}, ndcg@10 {max(scores):.4f}" in said
    config = json.loads((best / "run-id.json").read_text())["config"]
    made = presets.get(str(out / "best.yaml"))
    assert (made.train.lr, made.model.dim) == (config["train"]["lr"], config["model"]["dim"])
    assert made.train.steps == 2 and made.dataset == "planted-sequences"
    assert len({json.loads((place / "run-id.json").read_text())["config"]["train"]["lr"] for place in trials}) == 3
    assert sweep.main([*arguments(out, "--trials", "4"), "train.steps=3"]) == 1
    assert "the sweep that is there has another config" in capsys.readouterr().err
    absent = [word for word in arguments(tmp_path / "other") if not word.startswith(("dataset", "synthetic"))]
    assert sweep.main([*absent, "dataset=ml-1m", "--data-dir", str(tmp_path)]) == 1
    assert "trial-0000 could not run (exit code 1)" in capsys.readouterr().err
    wrong = [word if word != "ndcg@10" else "auc" for word in arguments(tmp_path / "third", "--trials", "1")]
    assert sweep.main(wrong) == 1
    assert "no metric 'auc'; the runs have hr@10, ndcg@10" in capsys.readouterr().err
