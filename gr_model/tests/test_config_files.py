"""Configs as files: what they set, what is wrong in them by line, and that what is printed is read back."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gr_model import config, train
from gr_model.config import ConfigError, EmbeddingConfig, presets, reference
from gr_model.config.data import OF_OWN, DataConfig

ROOT = Path(__file__).resolve().parents[2]


def written(folder: Path, text: str) -> str:
    path = folder / "my.yaml"
    path.write_text(text)
    return str(path)


def test_a_file_changes_what_it_names_above_its_preset(tmp_path: Path) -> None:
    name = written(
        tmp_path,
        """
        preset: ml-100k-retrieval
        train:
          lr: 5e-4      # text in YAML 1.1
          steps: 7
        model: {contextual: [gender, age], relative_bias: no}
        data.workers: 3
        """,
    )
    made, base = presets.get(name), presets.get("ml-100k-retrieval")
    differing = {key: value for key, value in config.keys(made).items() if value != config.keys(base)[key]}
    assert differing == {
        "train.lr": 5e-4,
        "train.steps": 7,
        "model.contextual": ("gender", "age"),
        "model.relative_bias": False,
        "data.workers": 3,
    }
    assert presets.name_of(name) == "my" and presets.name_of("smoke") == "smoke"


def test_without_a_preset_the_rest_are_the_defaults(tmp_path: Path) -> None:
    made = presets.get(written(tmp_path, "task: ranking\nmodel:\n  interleave: true\n"))
    assert made == config.Config(task="ranking", model=config.ModelConfig(interleave=True))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "task: retrieval\ntrain:\n  batchsize: 4\n",
            r"my.yaml:3: unknown key 'train.batchsize' \(did you mean 'train.batch'\?\)",
        ),
        ("task: retrieval\n\ntrain:\n  lr: fast\n", "my.yaml:4: train.lr: expected float, got 'fast'"),
        ("task: retrieval\ntrain:\n  batch: 0\n", "my.yaml:3: train.batch: must be greater than 0, got 0"),
        (
            "task: retrieval\nranking:\n  head: mlp\n",
            "my.yaml:3: ranking.head: nothing looks at it with task=retrieval",
        ),
        ("task: retrieval\ntrain: {lr: [1, 2]}\n", "my.yaml:2: train.lr: expected one value, got the list 1, 2"),
        ("task: retrieval\ntrain:\n  lr:\n", "my.yaml:3: train.lr: has no value"),
        ("task: retrieval\ntrain.lr: 1\ntrain:\n  lr: 2\n", "my.yaml:4: train.lr stands already in line 2"),
        ("preset: smok\n", r"my.yaml:1: unknown config 'smok' \(did you mean 'smoke'\?\)"),
        ("train:\n  steps: 5\n", "task: say what is trained, retrieval or ranking"),
        ("task: retrieval\n  train: [\n", "my.yaml:2: not YAML"),
        ("- task\n", "my.yaml:1: expected `setting: value` lines, got a list"),
        ("", "my.yaml: has no settings"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        presets.get(written(tmp_path, text))


def test_all_faults_of_a_file_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        presets.get(written(tmp_path, "task: retrieval\ntrain:\n  lr: fast\n  batch: many\nmodel:\n  dims: 3\n"))
    assert [f"my.yaml:{line}: " in str(caught.value) for line in (3, 4, 6)] == [True] * 3


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--config", str(tmp_path / "no.yaml")]) == 1
    assert (
        "no.yaml: no such file\n  next: python -m gr_model.train --config smoke --print-config >"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("name", presets.PRESETS)
def test_what_is_printed_is_read_back(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["train.steps=3", "train.lr=0.000370123456789"]
    if name == "smoke":
        settings += ["embedding.kind=hash", "embedding.eviction=lru", "embedding.max_rows=50", "data.path=/x/ä b.csv"]
    assert train.main(["--config", name, *settings, "--print-config"]) == 0
    text = capsys.readouterr().out
    assert presets.get(written(tmp_path, text)) == config.override(presets.get(name), settings)
    parsed = yaml.safe_load(text)  # any reader of YAML finds the same sections and names
    assert parsed["train"]["steps"] == 3 and ("ranking" in parsed) == (parsed["task"] == "ranking")
    assert all("  # " in line for line in text.splitlines() if line)


def test_help_and_the_page_say_every_setting() -> None:
    """The page is what the program prints; every setting has a meaning, and the default of its own class."""
    names = {each.name for each in reference.settings()}
    assert names == set(config.keys(presets.get("smoke"))) and len(names) > 80
    assert all(each.meaning for each in reference.settings())
    told = reference.help_text()
    assert "  train.batch  (whole number; default 128)\n      users of a step" in told
    assert "  train.schedule  (constant, cosine; default constant)" in told
    assert "  embedding.eps  (number; default 1e-08)" in told
    assert "  task  (retrieval, ranking; no default)" in told
    assert (ROOT / "docs/generated/settings.md").read_text(encoding="utf-8") == reference.page()


def test_help_is_printed_without_torch() -> None:
    program = "import sys; sys.modules['torch'] = None; from gr_model import train; train.main(['--help'])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "--print-config" in ran.stdout and reference.help_text() in ran.stdout


def test_configs_of_earlier_runs_are_read() -> None:
    """Before there were files of one's own, a stored config had none of these settings."""
    stored = config.to_json(presets.get("smoke"))
    for name in OF_OWN:
        del stored["data"][name]
    assert config.from_json(stored) == presets.get("smoke")


@pytest.mark.parametrize("name", OF_OWN)
def test_a_run_keeps_its_file_and_columns(name: str) -> None:
    stored = config.to_json(config.override(presets.get("smoke"), ["data.path=/a.csv", "data.actions=did"]))
    other = {"at_least": "5", "time_unit": "ms", "delimiter": ";", "action_kind": "ratings"}.get(name, "other")
    with pytest.raises(ConfigError, match=f"the checkpoint was made with data.{name}="):
        config.resumed(stored, [f"data.{name}={other}"])
    assert config.resumed(stored, ["data.workers=2"]).data.workers == 2


def test_a_path_is_kept_as_an_absolute_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = config.override(presets.get("smoke"), ["data.path=mine/a.csv"])
    assert made.data.path == str(tmp_path / "mine/a.csv") and made.dataset == "own"
    with pytest.raises(ConfigError, match="data.path: nothing looks at it with dataset=ml-1m"):
        config.override(presets.get("smoke"), ["data.path=a.csv", "dataset=ml-1m"])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["data.user=item"], "item is named for two purposes"),
        (["data.actions=a,b", "data.action_kind=labels"], "labels stand in one column, data.actions names 2"),
        (["data.actions=" + ",".join("abcdefghijklm")], "at most 12 columns of flags, got 13"),
        (["data.time="], "data.time: needs the name of a column"),
        (["data.at_least=0"], "data.at_least: must be greater than 0"),
        (["data.time_unit=minutes"], "data.time_unit: unknown choice 'minutes'; valid: s, ms, us, ns"),
    ],
)
def test_columns_that_do_not_fit(settings: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        config.override(presets.get("own-retrieval"), settings)


def test_own_data_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--config", "own-retrieval"]) == 1
    assert "none is named\n  next: the same command with data.path=FILE" in capsys.readouterr().err


def test_settings_of_own_data_are_settings() -> None:
    assert set(OF_OWN) < {item.name for item in dataclasses.fields(DataConfig)}
    assert EmbeddingConfig(optimizer="lion").optimizer == "lion"


@pytest.mark.parametrize("name", ["your-data.md", "training.md"])
def test_settings_on_the_pages_exist(name: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    valid = set(config.keys(presets.get("smoke")))
    sections = "|".join({each.rpartition(".")[0] for each in valid} - {""})
    named = set(re.findall(rf"\b((?:{sections})\.\w+)=", text))
    assert len(named) > 8 and named <= valid
    for block in re.findall(r"^```(?:yaml)?\n(preset: .*?)^```", text, re.M | re.S):
        assert presets.get(written(tmp_path, block)) != presets.get(re.match(r"preset: (\S+)", block)[1])
