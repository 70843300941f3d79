"""Is there room for wheels, build outputs and an image?"""

from __future__ import annotations

from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, error, note, ok, warning
from grstack.needs import DISK_COMFORTABLE, DISK_LEFT, DISK_NEEDED, GIB


def check(facts: Facts) -> Finding:
    # places on one file system share its room: name the first of each
    places = {facts.filesystem(path): path for path in reversed(facts.places)}
    path, free = min(((path, facts.free(path)) for path in places.values()), key=lambda item: item[1])
    message = f"{free / GIB:.1f} GiB free at {path}"
    remedy = "inv clean, then docker builder prune, or set GRSTACK_CACHE to a larger disk"
    if free < DISK_LEFT:
        return error(f"{message}, a step of a build needs {DISK_LEFT / GIB:.0f} GiB", remedy)
    if free < DISK_NEEDED:
        return warning(f"{message}, a first build needs {DISK_NEEDED / GIB:.0f} GiB", remedy)
    if free < DISK_COMFORTABLE:
        return note(f"{message}; images of two versions need {DISK_COMFORTABLE / GIB:.0f} GiB", remedy)
    return ok(message)
