"""Is there room for wheels, build outputs and an image?"""

from __future__ import annotations

from grstack.doctor.facts import GIB, Facts
from grstack.doctor.finding import Finding, error, ok, warning

NEEDED = 10 * GIB  # wheels 2.5, environment 6 (torch with its CUDA libraries), components and layers the rest
COMFORTABLE = 25 * GIB  # two images and the engine's build cache


def check(facts: Facts) -> Finding:
    # places on one file system share its room: name the first of each
    places = {facts.filesystem(path): path for path in reversed(facts.places)}
    path, free = min(((path, facts.free(path)) for path in places.values()), key=lambda item: item[1])
    message = f"{free / GIB:.1f} GiB free at {path}"
    remedy = "inv clean, docker system prune, or set GRSTACK_CACHE to a larger disk"
    if free < NEEDED:
        return error(f"{message}, a build needs {NEEDED / GIB:.0f} GiB", remedy)
    if free < COMFORTABLE:
        return warning(f"{message}, two images and a build cache need {COMFORTABLE / GIB:.0f} GiB", remedy)
    return ok(message)
