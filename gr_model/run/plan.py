"""What a command asks for: which config, in which folder, after which checkpoint. Known before torch is imported."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from gr_model import config as configs
from gr_model import data
from gr_model.config import Config, ConfigError, presets
from gr_model.config import checks as config_checks
from gr_model.run import checkpoint, run_id
from gr_model.run import folder as run_folder
from gr_model.run.folder import Place
from gr_model.run.lock import RunFolderError
from gr_model.runtime import launched


@dataclass(frozen=True)
class Plan:
    name: str  # of the config
    config: Config
    place: Place

    def to_json(self) -> str:
        return json.dumps([self.name, configs.to_json(self.config), self.place.to_json()])

    @classmethod
    def from_json(cls, text: str) -> Plan:
        name, config, place = json.loads(text)
        return cls(name, configs.from_json(config), Place.from_json(place))


def check(config: Config, kind: str) -> None:
    """An error of this package for a config that cannot be trained on a kind of device, or has no data set."""
    data.check_name(config.dataset, config.data)
    config_checks.check_device(config, kind, launched.launched())


def make(options: argparse.Namespace, kind: str) -> Plan:
    """`kind` is that of the device. An error of this package where the run cannot be, before anything was changed."""
    if options.resume:
        return _resumed(options, kind)
    preset, out, name = presets.get(options.config), options.out, presets.name_of(options.config)
    config = configs.override(preset, options.override)
    if not options.go_on:
        return Plan(name, config, run_folder.for_new(out, name, overwrite=options.overwrite))
    if out is None:
        raise RunFolderError(
            "--go-on needs the folder of the run that it begins or goes on with\n"
            "  next: the same command with --out FOLDER"
        )
    place = run_folder.for_same(out, name)
    if not place.new:
        mark = run_id.read(out)
        # A run without a checkpoint begins again, but as the run that it is.
        stored = checkpoint.read_run(place.checkpoint)["config"] if place.checkpoint else mark.config if mark else {}
        try:
            config = config_checks.going_on(stored, preset, options.override)
        except ConfigError as error:
            held = f" of --config {mark.name}" if mark and mark.name else ""
            raise ConfigError(
                f"{out}: holds a run{held}, and --config {options.config} asks for another one: {error}\n"
                f"  next: --resume {out} to go on with that run, or --config {options.config} with another --out"
            ) from None
    return Plan(name, config, place)


def _resumed(options: argparse.Namespace, kind: str) -> Plan:
    place = run_folder.for_resume(options.resume, options.out, overwrite=options.overwrite)
    assert place.checkpoint is not None
    config = configs.resumed(checkpoint.read_run(place.checkpoint)["config"], options.override)
    check(config, kind)
    return Plan(_name(place.checkpoint) or config.task, config, place)


def _name(chosen: Path) -> str:
    mark = run_id.read(chosen.parent.parent)
    return mark.name if mark else ""
