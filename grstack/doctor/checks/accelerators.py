"""What both kinds of devices have in common: does the driver answer, is it new enough, who uses which device?"""

from __future__ import annotations

from grstack.doctor.finding import Finding, ok, warning
from grstack.launch import drivers
from grstack.launch.seen import Seen


def all_well(seen: Seen, needs: drivers.Needs | None) -> Finding:
    """The finding for a machine that has devices, a driver and its tool."""
    if seen.problem:
        return warning(f"{seen.command} says: {seen.problem}", f"{seen.command}; dmesg")
    if needs is not None and _too_old(seen.driver, needs):
        message = f"{seen.names()}, driver {seen.driver}: {needs.toolkit} needs {needs.oldest} or later"
        return warning(message, f"install driver {needs.paired} ({needs.source})")
    sick = [f"{seen.noun} {device.id}: {device.health}" for device in seen.devices if device.health != "OK"]
    if sick:
        return warning(f"{seen.names()}, driver {seen.driver}; {', '.join(sick)}", seen.command)
    busy = [str(device.id) for device in seen.devices if device.busy]
    used = f"; in use: {', '.join(busy)}" if busy else ""
    helper = f", {seen.helper}" if seen.helper else ""
    return ok(f"{seen.names()}, driver {seen.driver}{helper}{used}")


def _too_old(driver: str, needs: drivers.Needs) -> bool:
    try:
        return drivers.older(driver, needs.oldest)
    except ValueError:
        return False
