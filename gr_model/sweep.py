"""Search settings: python -m gr_model.sweep --config NAME --out FOLDER --by ndcg@10 --search train.lr=1e-4..1e-2:log

Each trial is a run of gr_model.train in FOLDER/trial-N with settings that Optuna chooses (its TPE sampler); the same
command goes on where it was stopped. At the end FOLDER/best.yaml has the best trial's config. Needs the package optuna.
Exit codes: 0 done, 1 wrong arguments or a trial that could not run, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gr_model import config as configs
from gr_model import runs
from gr_model.common import errors, files, in_image
from gr_model.common.errors import GrModelError
from gr_model.config import ConfigError, presets, reference
from gr_model.run import leftovers

STUDY, BEST = "study.log", "best.yaml"
RANGE = re.compile(r"(?P<low>[^,]+?)\.\.(?P<high>[^,:]+)(?P<log>:log)?")
DIVERGED = 2  # exit code of gr_model.train


class SweepError(GrModelError, RuntimeError):
    pass


@dataclass(frozen=True)
class Range:
    low: float
    high: float
    log: bool
    whole: bool


@dataclass(frozen=True)
class Choices:
    values: tuple[str, ...]


Space = dict[str, Range | Choices]


def space(searches: Sequence[str], base: configs.Config) -> Space:
    """What each `key=LOW..HIGH[:log]` or `key=A,B,C` says. ConfigError where a setting cannot have the values."""
    found: Space = {}
    types = {setting.name: setting.type for setting in reference.settings()}
    for search in searches:
        name, equals, text = search.partition("=")
        bounds = RANGE.fullmatch(text)
        if not equals or not text or name in found:
            why = (
                "is searched twice"
                if name in found
                else "is not of the form key=LOW..HIGH, key=LOW..HIGH:log or key=A,B,C"
            )
            raise ConfigError(f"--search {search}: {why}")
        if types.get(name, "").startswith("list"):
            raise ConfigError(f"--search {search}: a list of names has no single values to choose from")
        ends = (bounds["low"], bounds["high"]) if bounds else tuple(text.split(","))
        for value in ends:
            configs.override(base, [f"{name}={value}"])
        found[name] = _range(search, bounds, types[name]) if bounds else Choices(ends)
    return found


def _range(search: str, bounds: re.Match[str], kind: str) -> Range:
    if "number" not in kind:
        raise ConfigError(f"--search {search}: a range is of numbers, this setting is {kind}; name its values: key=A,B")
    low, high = float(bounds["low"]), float(bounds["high"])
    if low >= high or (bounds["log"] and low <= 0):
        raise ConfigError(f"--search {search}: the first number must be the smaller one, and above 0 with :log")
    return Range(low, high, bool(bounds["log"]), kind.startswith("whole"))


def chosen(trial: Any, space: Space) -> list[str]:
    """The settings of an Optuna trial, as a command has them."""
    settings = []
    for name, values in space.items():
        if isinstance(values, Choices):
            value = trial.suggest_categorical(name, values.values)
        elif values.whole:
            value = trial.suggest_int(name, int(values.low), int(values.high), log=values.log)
        else:
            value = trial.suggest_float(name, values.low, values.high, log=values.log)
        settings.append(f"{name}={value}")
    return settings


def score(out: Path, by: str) -> float:
    """The run's metric `by`. SweepError where it has none of that name."""
    metrics = json.loads((out / leftovers.METRICS).read_text(encoding="utf-8"))
    known = [name for name in metrics if name not in ("run", "step")]
    if by not in known:
        raise SweepError(
            f"no metric {by!r}; the runs have {', '.join(known)}\n  next: another --out with --by {known[0]}"
        )
    return float(metrics[by])


def main(argv: Sequence[str] | None = None) -> int:
    options = _parse(argv)
    try:
        base = configs.override(presets.get(options.config), options.override)
        return _search(options, space(options.search, base), base)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 130
    except (GrModelError, OSError) as error:
        print(f"error: {errors.told(error) or error}", file=sys.stderr)
        return 1


def _search(options: argparse.Namespace, space: Space, base: configs.Config) -> int:
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError as error:
        how = in_image.pip_install("optuna", "gr_model.sweep")
        raise SweepError(f"a sweep needs the package optuna ({error})\n  next: {how}") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    options.out.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name="sweep",
        storage=JournalStorage(JournalFileBackend(str(options.out / STUDY))),
        direction="maximize",
        load_if_exists=True,
    )
    _same(study, {"config": configs.to_json(base), "by": options.by, "search": sorted(options.search)})
    done = len([trial for trial in study.trials if trial.state.is_finished()])
    # A sweep that goes on does not draw again what it drew at its start.
    study.sampler = optuna.samplers.TPESampler(seed=options.seed + len(study.trials))

    def objective(trial: Any) -> float:
        out = options.out / f"trial-{trial.number:04d}"
        settings = chosen(trial, space)
        print(f"trial {trial.number}: {' '.join(settings)}", flush=True)
        if not _train(options, out, settings):
            raise optuna.TrialPruned("the loss was not finite")
        found = score(out, options.by)
        print(f"trial {trial.number}: {options.by} {found:.4f}", flush=True)
        return found

    study.optimize(objective, n_trials=max(0, options.trials - done))
    complete = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.COMPLETE]
    if not complete:
        raise SweepError(f"no trial of {options.out} came to its end\n  next: smaller ranges, such as a lower train.lr")
    return _tell(options, [runs.read(place) for place in runs.find([options.out])], study.best_trial, space, base)


def _tell(options: argparse.Namespace, found: list[runs.Run], best: Any, space: Space, base: configs.Config) -> int:
    settings = [f"{name}={best.params[name]}" for name in space]
    files.write_text(options.out / BEST, reference.as_yaml(configs.override(base, settings)))
    print(runs.table(runs.ordered(found, options.by), options.by))
    print(f"best: trial {best.number}, {options.by} {best.value:.4f}, {' '.join(settings)}")
    print(f"its config: python -m gr_model.train --config {options.out / BEST}")
    return 0


def _same(study: Any, asked: dict[str, Any]) -> None:
    """A folder is of one sweep: trials of another config say nothing about this one's settings."""
    asked = json.loads(json.dumps(asked))
    held = study.user_attrs.get("asked")
    if held is None:
        study.set_user_attr("asked", asked)
    elif held != asked:
        differs = ", ".join(name for name in asked if held.get(name) != asked[name])
        raise SweepError(
            f"the sweep that is there has another {differs}\n  next: the command that began it, or another --out"
        )


def _train(options: argparse.Namespace, out: Path, settings: list[str]) -> bool:
    """Whether the run came to its end; SweepError for a command that cannot run. What it says goes to OUT.txt."""
    told = out.with_suffix(".txt")
    command = [sys.executable, "-m", "gr_model.train", "--config", options.config, "--device", options.device]
    command += ["--data-dir", str(options.data_dir)] if options.data_dir else []
    with told.open("w", encoding="utf-8") as file:
        ran = subprocess.run(
            [*command, "--out", str(out), "--overwrite", *options.override, *settings],
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    if ran.returncode not in (0, DIVERGED):
        last = "".join(told.read_text(encoding="utf-8").splitlines(keepends=True)[-4:])
        raise SweepError(f"{out.name} could not run (exit code {ran.returncode}):\n{last}  next: read {told}")
    return ran.returncode == 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m gr_model.sweep", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", required=True, help="a file (.yaml) or a preset")
    parser.add_argument("--out", required=True, type=Path, help="folder for the trials")
    parser.add_argument("--by", required=True, metavar="METRIC", help="the greater the better, such as ndcg@10")
    parser.add_argument(
        "--search", required=True, action="append", metavar="KEY=VALUES", help="LOW..HIGH, LOW..HIGH:log, or A,B,C"
    )
    parser.add_argument("--trials", type=int, default=20, help="in all, with those that are there (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the search")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("override", nargs="*", metavar="key=value", help="settings of all trials")
    return parser.parse_intermixed_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
