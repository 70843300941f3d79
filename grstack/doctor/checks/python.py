"""Can this Python run the toolchain, and is the image's Python here for --engine none?"""

from __future__ import annotations

from grstack import host
from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, error, note, ok

OLDEST = (3, 10)


def check(facts: Facts) -> Finding:
    running = f"{facts.python[0]}.{facts.python[1]}"
    if facts.python < OLDEST:
        needed = f"{OLDEST[0]}.{OLDEST[1]}"
        return error(f"Python {running}, the toolchain needs {needed}", host.install_command(["python3"]))
    wanted = facts.versions.pythons.default
    if facts.has_python(wanted):
        return ok(f"Python {running}; {wanted}, the image's default, is here too")
    return note(
        f"Python {running}; without {wanted} --engine none cannot build the default image",
        f"{host.install_command([f'python{wanted}', f'python{wanted}-venv'])}, or use the Docker engine",
    )
