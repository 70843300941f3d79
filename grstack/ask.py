"""Questions to this machine: short commands that only look. They are not echoed, and may fail.

Needs nothing but the standard library: the scanner of `grstack.opp` runs in images that have none of the tool's.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    code: int  # 127: there is no such command; 124: it took too long
    output: str
    errors: str


def ask(argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float | None = None) -> Answer:
    """Runs `argv`; `env` is added to this process's environment. `timeout`: seconds, then it is ended."""
    environment = {**os.environ, **env} if env is not None else None
    try:
        done = subprocess.run(list(argv), env=environment, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        return Answer(124, "", str(error))
    except OSError as error:
        return Answer(127, "", str(error))
    return Answer(done.returncode, done.stdout, done.stderr)
