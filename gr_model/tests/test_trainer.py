import dataclasses
import json

import pytest
import torch

from gr_model import config, train
from gr_model.common import files
from gr_model.config import ModelConfig, RankingConfig, TrainConfig, presets
from gr_model.run import checkpoint
from gr_model.run import log as runlog
from gr_model.run.checkpoint import RunCheckpointError
from gr_model.runtime.device import DeviceError, open_device
from gr_model.training.gradients import TrainingDiverged
from gr_model.training.trainer import Trainer

CPU = torch.device("cpu")
SMALL = ["train.batch=2", "model.dim=4", "model.qk_dim=4", "model.value_dim=4"]


def small(data, deterministic=False, **settings):
    return Trainer(
        config.Config(
            task="retrieval",
            model=ModelConfig(dim=8, qk_dim=8, value_dim=8, max_items=16),
            train=TrainConfig(batch=5, deterministic=deterministic, **settings),
        ),
        data,
        CPU,
    )


@pytest.mark.parametrize("deterministic", [False, True])
def test_continuing_repeats_the_uninterrupted_run(random_data, tmp_path, deterministic):
    whole = small(random_data, deterministic)
    expected = [whole.train_step().loss for _ in range(8)]
    first = small(random_data, deterministic)
    losses = [first.train_step().loss for _ in range(4)]
    checkpoint.save(tmp_path / "c.pt", first.state())
    second = small(random_data, deterministic)
    second.load_state(checkpoint.load(tmp_path / "c.pt"))
    torch.manual_seed(99)  # no hidden state of the generator is needed
    losses += [second.train_step().loss for _ in range(4)]
    assert losses == expected
    assert len(set(expected)) == 8


def test_losses_that_are_asked_for_and_taken_at_the_end_of_a_step(random_data):
    """As on a GPU, with the losses and norms of the steps before."""
    plain, late = small(random_data), small(random_data, log_every=3)
    late.looks_before_update, late.answers_late = False, True
    late._reads_this_step = lambda: (late.step + 1) % 3 == 0
    expected = [plain.train_step().loss for _ in range(7)]
    results = [late.train_step() for _ in range(7)]
    assert [result.loss_known for result in results] == [True] * 6 + [False]
    assert [result.loss for result in results] == expected
    assert len(late._readings._unread) == 3  # the sixth step's norm, and all of the seventh
    late.state()  # reads the rest
    assert not late._readings._unread


def test_a_loss_that_is_not_finite_is_told_at_the_end_of_its_step(random_data):
    trainer = small(random_data)
    trainer.looks_before_update, trainer.answers_late = False, True
    trainer.train_step()
    with torch.no_grad():
        next(iter(trainer.model.parameters())).fill_(float("nan"))
    with pytest.raises(TrainingDiverged, match="loss is nan at step 2"):
        trainer.train_step()
    with pytest.raises(TrainingDiverged, match="norm of the gradient is nan at step 2"):
        trainer.state()


def test_another_seed_is_another_run(random_data):
    assert small(random_data).train_step().loss != small(random_data, seed=1).train_step().loss


def test_every_step_draws_new_negatives(random_data):
    trainer = small(random_data)
    drawn = []
    make = trainer.task.batch
    trainer.task.batch = lambda *arguments: drawn.append(make(*arguments)) or drawn[-1]
    trainer.train_step()
    trainer.train_step()
    first, second = (batch.samples.negatives_GR[:1] for batch in drawn)
    assert not torch.equal(first, second)


def test_every_epoch_shows_every_user_once(random_data):
    trainer = small(random_data)
    for epoch in range(3):
        shown = sum((trainer.users_of_step(epoch * 3 + index) for index in range(3)), [])
        assert sorted(shown) == list(range(12))
    assert trainer.users_of_step(0) != trainer.users_of_step(3)


def test_loss_that_is_not_finite_stops_the_run(random_data):
    trainer = small(random_data)
    with torch.no_grad():
        trainer.model.backbone.layers[0].uvqk[0, 0] = float("nan")
    with pytest.raises(TrainingDiverged, match="loss is nan at step 1"):
        trainer.train_step()
    assert trainer.step == 0


def spoil(trainer, at_step):
    """The gradient of one weight is not finite at that step, though the loss is; returns the step's users."""
    weight = trainer.model.backbone.layers[0].output.weight
    weight.register_hook(lambda gradient: gradient * (float("nan") if trainer.step + 1 == at_step else 1.0))
    return trainer.users_of_step(at_step - 1)


def weights(trainer):
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_gradient_that_is_not_finite_leaves_the_weights_and_its_batch(random_data, clip):
    trainer = small(random_data, clip=clip, ema=0.9)
    users = spoil(trainer, at_step=2)
    trainer.train_step()
    before, averages = weights(trainer), [value.clone() for value in trainer.average.average]
    with pytest.raises(TrainingDiverged, match="norm of the gradient is nan at step 2") as caught:
        trainer.train_step()
    assert (caught.value.step, sorted(caught.value.users)) == (2, sorted(users)) and trainer.step == 1
    assert caught.value.batch.tokens.sequences.lengths
    after = weights(trainer)
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert all(torch.equal(now, then) for now, then in zip(trainer.average.average, averages, strict=True))


@pytest.mark.parametrize("then", ["train_step", "evaluate", "state"])
def test_where_the_host_does_not_wait_the_batch_that_did_it_is_named(random_data, then):
    """As on other devices than the CPU; the step after sees a loss of nan, and is not the one to blame."""
    trainer = small(random_data)
    trainer.looks_before_update = False
    users = spoil(trainer, at_step=2)
    for _ in range(2):
        assert trainer.train_step().loss > 0
    assert not torch.isfinite(trainer.model.backbone.layers[0].output.weight).all()
    with pytest.raises(TrainingDiverged, match="norm of the gradient is nan at step 2") as caught:
        getattr(trainer, then)()
    assert (caught.value.step, sorted(caught.value.users)) == (2, sorted(users))


def test_failed_save_keeps_the_old_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "c.pt"
    checkpoint.save(path, {"step": 1})

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space"):
        checkpoint.save(path, {"step": 2})
    assert checkpoint.load(path)["step"] == 1
    assert [file.name for file in tmp_path.iterdir()] == ["c.pt"]


def test_a_replaced_file_is_whole_and_readable_by_others(tmp_path):
    path = tmp_path / "new" / "page.html"
    files.write_text(path, "one")
    with pytest.raises(RuntimeError), files.replacing(path) as file:
        file.write(b"tw")
        raise RuntimeError
    assert path.read_text() == "one" and [file.name for file in path.parent.iterdir()] == ["page.html"]
    files.write_text(path, "zw\u00f6lf")
    assert path.read_text(encoding="utf-8") == "zw\u00f6lf" and path.stat().st_mode & 0o777 == 0o644


def test_unreadable_checkpoints(tmp_path):
    with pytest.raises(RunCheckpointError, match="no such checkpoint"):
        checkpoint.load(tmp_path / "none.pt")
    path = tmp_path / "c.pt"
    checkpoint.save(path, {"step": 1})
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(RunCheckpointError, match="not a readable checkpoint"):
        checkpoint.load(path)
    torch.save({"step": 1}, path)
    with pytest.raises(RunCheckpointError, match="format"):
        checkpoint.load(path)


@pytest.mark.parametrize("name", ["tpu", "cpu:x", "npu:x", "cuda:99"])
def test_devices_that_are_not_there(name):
    with pytest.raises(DeviceError):
        open_device(name)


def test_command_line(atomic_folder, tmp_path, capsys):
    out = tmp_path / "out"
    base = ["--data-dir", str(atomic_folder.parent), "--out", str(out)]
    assert train.main(["--config", "ml-100k-retrieval", *base, *SMALL, "train.steps=3"]) == 0
    events = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == ["start", "step", "step", "step", "evaluation"]
    assert "ties count against the model" in events[0]["protocol"]
    assert "<svg" in (out / "report.html").read_text() and "http" not in (out / "report.html").read_text()
    assert train.main(["--resume", str(out), *base, "train.steps=5"]) == 0
    events = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [event["step"] for event in events if event["event"] == "step"] == [1, 2, 3, 4, 5]
    limited = [*SMALL, "train.steps=1000", "train.time_limit=1e-9"]
    assert train.main(["--config", "ml-100k-retrieval", *base, *limited, "--overwrite"]) == 0
    assert "time limit" in capsys.readouterr().out
    assert train.main(["--config", "nothing", *base]) == 1
    assert "valid: ml-100k-retrieval, ml-100k-ranking" in capsys.readouterr().err


def test_resume_after_a_kill_past_the_last_checkpoint(atomic_folder, tmp_path, monkeypatch):
    """Steps 1 to 5 are logged, the checkpoint is of step 4, and the kill cuts the record of step 6."""

    def steps(out):
        events = runlog.read(out / "log.jsonl")
        return [(event["step"], event["loss"]) for event in events if event["event"] == "step"]

    def arguments(out):
        return ["--data-dir", str(atomic_folder.parent), "--out", str(out)]

    fresh = ["--config", "ml-100k-retrieval", *SMALL, "train.steps=7", "train.checkpoint_every=2"]
    assert train.main([*fresh, *arguments(tmp_path / "whole")]) == 0

    class Killed(BaseException):
        pass

    take_step = Trainer.train_step

    def killed_in_step_6(trainer, work):
        if trainer.step == 5:
            raise Killed
        return take_step(trainer, work)

    out = tmp_path / "killed"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Trainer, "train_step", killed_in_step_6)
        train.main([*fresh, *arguments(out)])
    with (out / "log.jsonl").open("a") as log:
        log.write('{"event": "step", "st')
    assert [step for step, _ in steps(out)] == [1, 2, 3, 4, 5]
    assert train.main(["--resume", str(out), *arguments(out)]) == 0
    assert steps(out) == steps(tmp_path / "whole") and [step for step, _ in steps(out)] == [1, 2, 3, 4, 5, 6, 7]


def test_resume_keeps_what_shapes_the_model(atomic_folder, tmp_path, capsys):
    out = ["--data-dir", str(atomic_folder.parent), "--out", str(tmp_path)]
    assert train.main(["--config", "ml-100k-retrieval", *SMALL, "train.steps=1", *out]) == 0
    log = (tmp_path / "log.jsonl").read_text()
    capsys.readouterr()
    resume = ["--resume", str(tmp_path), *out]
    assert train.main([*resume, "model.dim=64", "model.blocks=3", "train.steps=2"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: the checkpoint was made with model.dim=4, model.blocks=2") and "--config" in told
    assert (tmp_path / "log.jsonl").read_text() == log
    assert train.main([*resume, "model.dim=4", "model.dropout=0", "train.lr=1e-4", "train.steps=2"]) == 0


def test_resume_with_other_data(atomic_folder, tmp_path, capsys):
    """One more film: the item table of the checkpoint is one row short."""
    out = ["--data-dir", str(atomic_folder.parent), "--out", str(tmp_path)]
    assert train.main(["--config", "ml-100k-retrieval", *SMALL, "train.steps=1", *out]) == 0
    with (atomic_folder / "ml-100k.item").open("a") as items:
        items.write("w\tTitle\t1995\tDrama\n")
    capsys.readouterr()
    assert train.main(["--resume", str(tmp_path), *out]) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: the checkpoint does not fit this model and data") and "size mismatch" in told.lower()


@pytest.mark.parametrize("name", presets.PRESETS)
def test_configs_of_the_presets_build(random_data, name):
    """With the features and tasks that the small data has."""
    base = presets.get(name)
    contextual = tuple(feature for feature in base.model.contextual if feature in random_data.feature_sizes)
    config = dataclasses.replace(
        base,
        model=dataclasses.replace(base.model, contextual=contextual),
        ranking=RankingConfig(held_out=3),
        train=dataclasses.replace(base.train, batch=2),
    )
    assert Trainer(config, random_data, CPU).train_step().loss > 0
