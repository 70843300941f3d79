"""What a machine shows of its accelerators: the same for NPUs and GPUs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Process:
    pid: int
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Device:
    id: int
    name: str = ""
    health: str = "OK"
    processes: tuple[Process, ...] = ()

    @property
    def busy(self) -> str:
        """Who uses it; empty where nobody does."""
        return ", ".join(f"process {p.pid}{f' ({p.name})' if p.name else ''}" for p in self.processes)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """`tool` is the vendor's own program; `problem` is what it says in place of an answer."""

    noun: str  # NPU or GPU
    tool: str = ""
    command: str = ""  # that shows a user the same
    driver: str = ""
    devices: tuple[Device, ...] = ()
    problem: str = ""
    helper: str = ""  # what hands devices to containers here: a runtime, a toolkit

    def device(self, identity: int) -> Device | None:
        return next((device for device in self.devices if device.id == identity), None)

    def names(self) -> str:
        """`8 NPUs (910B3)`, `no GPU`."""
        count = len(self.devices)
        kinds = ", ".join(sorted({device.name for device in self.devices} - {""}))
        said = f"{count or 'no'} {self.noun}{'s' if count > 1 else ''}"
        return f"{said} ({kinds})" if kinds else said
