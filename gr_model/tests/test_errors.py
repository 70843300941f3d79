"""What a user can mend is told in a line or two with what to do next; what needs no torch is told before it loads."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gr_model import data, train
from gr_model.common import errors, in_image
from gr_model.data import DataError
from gr_model.run import folder as run_folder
from gr_model.tests import data_files

SMALL = [
    "train.batch=4",
    "model.dim=4",
    "model.qk_dim=4",
    "model.value_dim=4",
    "model.max_items=16",
    "data.workers=0",
    "train.eval_every=0",
]
CHECK = """
import sys
from gr_model import train
code = train.main(sys.argv[1:])
print(code, "torch" in sys.modules)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data_files.ml_1m(tmp_path / "data" / "ml-1m", data_files.random_rows())
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config", "ml-100k-retreival"], "did you mean 'ml-100k-retrieval'?"),
        (["--config", "smoke", "lr=1e-3"], "did you mean 'train.lr' or 'embedding.lr'?"),
        (["--config", "smoke", "train.lr=quick"], "train.lr: expected float, got 'quick'"),
        (["--config", "smoke", "dataset=ml-100"], "unknown data set 'ml-100' (did you mean 'ml-100k'?)"),
        (["--config", "smoke", "--device", "nup"], "unknown device 'nup' (did you mean 'npu'?)"),
        (["--config", "smoke", "--device", "gpu:1"], "unknown device 'gpu:1' (did you mean 'cuda'?)"),
        (
            ["--config", "smoke", "--steps", "5"],
            "'--steps' (a setting, without dashes: train.steps=...)",
        ),
        (["--config", "smoke", "--train.lr=1e-3"], "'--train.lr' (a setting, without dashes: train.lr=...)"),
        (["--config", "smoke", "--otu", "x"], "unknown option '--otu' (did you mean '--out'?)"),
        (["--confg", "smoke"], "unknown option '--confg' (did you mean '--config'?)"),
        (["--config", "smoke", "--go_on"], "unknown option '--go_on' (did you mean '--go-on'?)"),
        (["--config", "smoke", "--progress", "x"], "invalid choice: 'x'"),
        (["train.lr=1"], "--config --resume"),
        (["--resume", "/no/such/run"], "no whole checkpoint is there"),
        (["--config", "smoke", "--go-on"], "--go-on needs the folder"),
        (["--config", "smoke", "--go-on", "--overwrite", "--out", "x"], "leave one of them out"),
        (["--config", "smoke", "--device", "npu", "embedding.kind=sharded"], "needs a launcher"),
        (["--config", "smoke", "--out", "/etc/hostname/x"], "is not a folder"),
    ],
)
def test_a_typo_is_told_before_torch_is_loaded(arguments, said) -> None:
    """Which takes 4 to 14 s."""
    env = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).resolve().parents[2]), env.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", CHECK, *arguments], env=env, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "False"], done.stderr
    assert done.stderr.startswith("error: ") and said in done.stderr and done.stderr.count("\n") <= 2


def test_tables_that_are_too_small(folder, tmp_path, capsys) -> None:
    base = ["--config", "ml-1m", "--data-dir", str(folder), *SMALL, "train.steps=3"]
    small = ["embedding.kind=embcache", "embedding.cache_rows=3"]
    assert train.main([*base, "--out", str(tmp_path / "a"), *small]) == 1
    told = capsys.readouterr().err
    assert "distinct ids, but cache_rows is 3" in told and "next: the command with embedding.cache_rows=ROWS" in told
    assert "Traceback" not in told
    # The run had no step, so the mended command takes its place.
    assert train.main([*base, "--out", str(tmp_path / "a"), *small[:1], "embedding.cache_rows=3000"]) == 0
    capsys.readouterr()
    assert train.main([*base, "--out", str(tmp_path / "b"), "embedding.kind=hash", "embedding.max_rows=3"]) == 1
    told = capsys.readouterr().err
    assert "is full" in told and "embedding.eviction=lru" in told and "Traceback" not in told


@pytest.mark.parametrize(
    ("absent", "words", "said"),
    [
        ("gr_ops", ["model.attention=fused"], "fused needs gr_ops on a CPU"),
        ("prometheus_client", ["--prometheus", "0"], "--prometheus needs a package"),
        ("torch.utils.tensorboard", ["--tensorboard"], "--tensorboard needs the package tensorboard"),
        ("hybrid_torchrec", ["embedding.kind=hash"], "embedding.kind=hash needs hybrid_torchrec"),
    ],
)
def test_a_package_that_is_not_there(folder, tmp_path, monkeypatch, capsys, absent, words, said) -> None:
    """`pip install ./gr_model` brings none of them."""
    from gr_model.model import jagged

    for name in [each for each in sys.modules if each == absent or each.startswith(f"{absent}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, absent, None)
    if absent == "gr_ops":
        monkeypatch.setattr(jagged, "load_operators", lambda device: "torch")
    base = ["--config", "ml-1m", "--data-dir", str(folder), *SMALL, "train.steps=1", "--out", str(tmp_path / "run")]
    assert train.main([*base, *words]) == 1
    told = capsys.readouterr().err
    assert said in told and "\n  next: " in told.partition("error: ")[2] and "Traceback" not in told


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_without_permission(folder, tmp_path, capsys) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o755)
    for above in (tmp_path, *tmp_path.parents[:-1]):
        above.chmod(above.stat().st_mode | 0o755)
    try:
        os.seteuid(65534)
        code = train.main(["--config", "ml-1m", "--data-dir", str(folder), "--out", str(closed / "run"), *SMALL])
    finally:
        os.seteuid(0)
    told = capsys.readouterr().err
    assert code == 1 and told.startswith(f"error: {closed}: user 65534 may not write there\n  next: another --out")
    assert list(closed.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_what_the_system_refuses_while_it_runs(folder, tmp_path, monkeypatch, capsys, number) -> None:
    from gr_model.report import pages as report

    def refuse(*_: object) -> str:
        raise OSError(number, os.strerror(number), "/out/report.html")

    monkeypatch.setattr(report, "training_page", refuse)
    base = ["--config", "ml-1m", "--data-dir", str(folder), *SMALL, "train.steps=1"]
    assert train.main([*base, "--out", str(tmp_path / "run")]) == 1
    told = capsys.readouterr().err
    assert f"/out/report.html: {os.strerror(number)}\n  next: " in told and "Traceback" not in told


def test_a_full_disk_in_the_middle_of_a_checkpoint(folder, tmp_path, monkeypatch, capsys) -> None:
    from torch.distributed.checkpoint import filesystem

    base = ["--config", "ml-1m", "--data-dir", str(folder), *SMALL, "--out", str(tmp_path / "run")]
    assert train.main([*base, "train.steps=1"]) == 0

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "part.distcp")

    monkeypatch.setattr(filesystem, "_write_item", full)
    assert train.main(["--resume", str(tmp_path / "run"), "--data-dir", str(folder), "train.steps=2"]) == 1
    told = capsys.readouterr().err
    assert "step-00000002: cannot be written" in told and "No space left" in told and "Traceback" not in told
    assert [path.name for path in (tmp_path / "run/checkpoints").glob("step-*")] == ["step-00000001"]


def test_errors_that_nobody_expects_keep_their_stack(folder, tmp_path, monkeypatch) -> None:
    assert (
        errors.told(RuntimeError("shapes differ")) is None and errors.told(ConnectionResetError(104, "reset")) is None
    )


IN_CONTAINER = """\
1 0 0:72 / / rw,relatime - overlay overlay rw,lowerdir=/a
2 1 0:75 / /proc rw - proc proc rw
3 1 254:0 /host /out rw,relatime - ext4 /dev/vda rw
4 1 254:0 /host /my\\040runs rw,relatime - ext4 /dev/vda rw
5 1 0:80 / /scratch rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("out", "gone"),
    [
        ("/workspace/runs/a", True),
        ("/out", False),
        ("/out/a/b", False),
        ("/my runs/a", False),
        ("/scratch/a", True),
        ("/output/a", True),
    ],
)
def test_output_that_goes_with_the_container(tmp_path, monkeypatch, out, gone) -> None:
    (tmp_path / "mountinfo").write_text(IN_CONTAINER)
    monkeypatch.setattr(in_image, "MOUNTS", tmp_path / "mountinfo")
    place = run_folder.Place(out=Path(out), run="r")
    assert bool(run_folder.warn_of_loss(place)) == gone
    if gone:
        assert f'-v "$PWD/out":{out}' in run_folder.warn_of_loss(place)


def test_on_a_host_nothing_goes(tmp_path, monkeypatch) -> None:
    (tmp_path / "mountinfo").write_text("1 0 254:0 / / rw,relatime - ext4 /dev/vda rw\n")
    monkeypatch.setattr(in_image, "MOUNTS", tmp_path / "mountinfo")
    monkeypatch.setattr(in_image, "MARKS", (str(tmp_path / "none"),))
    assert not run_folder.warn_of_loss(run_folder.Place(out=tmp_path, run="r"))


def test_a_run_in_a_container_warns(folder, tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "mountinfo").write_text(IN_CONTAINER)
    monkeypatch.setattr(in_image, "MOUNTS", tmp_path / "mountinfo")
    monkeypatch.setenv("GRSTACK_RUNS", str(tmp_path / "runs"))
    assert train.main(["--config", "ml-1m", "--data-dir", str(folder), *SMALL, "train.steps=1"]) == 0
    told = capsys.readouterr().err
    assert "gone with it" in told and f'-v "$PWD/out":{tmp_path}/runs' in told


@pytest.mark.parametrize("inside", [True, False])
def test_how_a_data_set_is_fetched_where_this_is(tmp_path, monkeypatch, inside) -> None:
    """Neither the image nor an environment of `pip install ./gr_model` has `inv`."""
    if inside:
        (tmp_path / "manifest.json").write_text("{}")
    monkeypatch.setattr(in_image, "MANIFEST", tmp_path / "manifest.json")
    for name in ("ml-100k", "ml-1m", "amzn-books", "amzn-beauty-reviews", "kuairand-1k"):
        with pytest.raises(DataError, match="no such file") as caught:
            data.load(name, tmp_path / "data")
        told = str(caught.value)
        assert f"make fetch-data ARGS={name}" in told and "inv " not in told and "--data-dir" in told
        assert ('docker run -v "$PWD/data:/data"' in told) == inside


def test_shards_take_the_place_of_nothing_else(folder, monkeypatch) -> None:
    """GRSTACK_SHARDS=the data folder named the data set's own folder, which was removed for the shards."""
    before = {path.name: path.read_bytes() for path in (folder / "ml-1m").iterdir()}
    monkeypatch.setenv("GRSTACK_SHARDS", str(folder))
    with pytest.raises(DataError, match="has files that are not shards"):
        data.load("ml-1m", folder, say=lambda _: None)
    assert {path.name: path.read_bytes() for path in (folder / "ml-1m").iterdir()} == before
