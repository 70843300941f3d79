"""What a command asks for against the run that is there, and against the device; all of it known before torch is."""

from __future__ import annotations

from typing import Any

from gr_model.config import Config, ConfigError, from_json, keys, override, resumed
from gr_model.config.embedding import NEEDS_LAUNCHER, device_faults

KINDS = ("npu", "cuda", "cpu")
SHOWN = 6  # settings that differ are told with their values; further ones by name alone
FSDP_NEEDS = "train.parallel=fsdp needs npu or cuda (PyTorch's has no streams on the CPU); valid: ddp"


def going_on(stored: dict[str, Any], preset: Config, assignments: list[str]) -> Config:
    """The config of the command that began a run, given again. ConfigError where it asks for another one.

    Settings that the command names may differ as in `resumed`; all others must be those of the run.
    """
    before = keys(from_json(stored))
    asked = keys(override(preset, assignments))
    named = {assignment.partition("=")[0] for assignment in assignments}
    others = [name for name in before if name not in named and before[name] != asked[name]]
    if others:
        told = [f"{name} (there {_shown(before[name])}, asked for {_shown(asked[name])})" for name in others[:SHOWN]]
        raise ConfigError(f"they differ in {', '.join(told + others[SHOWN:])}")
    return resumed(stored, assignments)


def check_device(config: Config, kind: str, launched: bool) -> None:
    """ConfigError for what does not go with a kind of device, or needs a launcher where there was none."""
    faults = list(device_faults(config.embedding, kind))
    if config.embedding.kind == "sharded" and not launched:
        faults.append(NEEDS_LAUNCHER)
    if config.train.parallel == "fsdp" and kind == "cpu" and launched:
        faults.append(FSDP_NEEDS)
    if faults:
        raise ConfigError("; ".join(faults))


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
