"""Train a model: python -m gr_model.train --config ml-100k-retrieval --device npu [key=value ...]

On several processes: torchrun --nproc-per-node 2 -m gr_model.train ... ; over gloo, hccl or nccl, by the device.
Writes into --out, a folder of the run's own: log.jsonl (one JSON object a line), checkpoints/step-N, metrics.json,
report.html and PNGs; run-id.json says which run it holds.
Exit codes: 0 done, 1 wrong arguments, data or device, 2 the loss is not finite, 130 and 143 stopped by Ctrl-C and
SIGTERM after a checkpoint was written.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

# torch is imported with training_run, after all that a command can have wrong without it.
from gr_model import config as configs
from gr_model.common import errors
from gr_model.common.errors import GrModelError
from gr_model.config import advice, presets, reference
from gr_model.report import prometheus
from gr_model.run import plan as run_plan
from gr_model.run.plan import Plan
from gr_model.runtime import device, launched


class ArgumentError(GrModelError, ValueError):
    """A command line that does not say what to train."""


def main(arguments: list[str] | None = None) -> int:
    try:
        options = _parse(arguments)
        kind, _ = device.split(options.device)
        if options.config:  # what every process can tell by itself
            config = configs.override(presets.get(options.config), options.override)
            if options.print_config:
                print(reference.as_yaml(config), end="")
                return 0
            run_plan.check(config, kind)
        plan = run_plan.make(options, kind) if not launched.launched() else None

        def decide() -> Plan:
            return plan or run_plan.make(options, kind)

        from gr_model.training import training_run

        return training_run.train(options, decide)
    except errors.SaidElsewhere:
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        text = errors.told(error)
        if text is None:
            raise
        where = f"process {os.environ['RANK']}: " if launched.launched() else ""
        print(f"error: {where}{text}", file=sys.stderr)
        return 1


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ArgumentError(f"{message}\n  next: {self.prog} --help")


class _Help(argparse.HelpFormatter):
    """The epilog has its own line breaks."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = _parser()
    _refuse_unknown(parser, sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_intermixed_args(arguments)  # settings may stand anywhere
    if options.print_config and not options.config:
        raise ArgumentError("--print-config goes with --config; what a run was made with stands in RUN/run-id.json")
    if options.overwrite and options.go_on:
        raise ArgumentError("--overwrite removes the run that --go-on goes on with; leave one of them out")
    return options


def _refuse_unknown(parser: argparse.ArgumentParser, arguments: list[str]) -> None:
    """Before argparse looks, which misses `--config` where it is spelt `--confg`."""
    valid = [option for action in parser._actions for option in action.option_strings]
    names = [setting.name for setting in reference.settings()]
    for word in (argument.partition("=")[0] for argument in arguments if argument.startswith("-")):
        if word not in (*valid, "--"):
            long = [option for option in valid if option.startswith("--")]
            bare = word.lstrip("-")
            settings = [each for each in advice.meant(bare, names) if bare in (each, each.rpartition(".")[2])]
            hint = f" (a setting, without dashes: {' or '.join(settings)}=...)" if settings else advice.hint(word, long)
            raise ArgumentError(f"unknown option {word!r}{hint}; valid: {', '.join(long)}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m gr_model.train",
        description="Train an HSTU model.",
        epilog=reference.help_text(),
        formatter_class=_Help,
        allow_abbrev=False,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--config", help=f"a file (.yaml), or one of: {', '.join(presets.PRESETS)}")
    what.add_argument(
        "--resume",
        type=Path,
        metavar="RUN",
        help="continue a run, with its config: its folder, or one of its checkpoints. With --out another "
        "folder: a new run that begins there",
    )
    parser.add_argument(
        "--print-config",
        action="store_true",
        help="print the config with its settings as a file for --config, with comments, and train nothing",
    )
    parser.add_argument(
        "--go-on",
        action="store_true",
        help="with --config and --out: after the newest checkpoint of the run that this command began, "
        "where there is one; refused where that run has another config",
    )
    parser.add_argument("--overwrite", action="store_true", help="remove what the run in --out wrote, and nothing else")
    parser.add_argument("--device", default="cpu", help="npu, cuda or cpu (default); npu:1 for another one")
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=Path(os.environ.get("GRSTACK_DATA") or "data"),
        help="folder that holds the data set's folder (default: $GRSTACK_DATA or ./data)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="folder for log, checkpoints, report; one that holds a run is refused (default: a new "
        "one, TIME-CONFIG in $GRSTACK_RUNS or ./runs, where `latest` is the newest)",
    )
    parser.add_argument("--tensorboard", action="store_true", help="also write OUT/tensorboard")
    parser.add_argument(
        "--prometheus",
        type=prometheus.address,
        metavar="[ADDRESS:]PORT",
        help="serve the run's figures at http://ADDRESS:PORT/metrics while it runs (default: for this host alone)",
    )
    parser.add_argument("--phases", action="store_true", help="wait for the device after each phase, to time it")
    parser.add_argument(
        "--progress",
        choices=("auto", "bar", "lines"),
        default="auto",
        help="a bar on a terminal, lines elsewhere (auto)",
    )
    parser.add_argument("override", nargs="*", metavar="key=value", help="settings, e.g. train.lr=5e-4")
    return parser


if __name__ == "__main__":
    sys.exit(main())
