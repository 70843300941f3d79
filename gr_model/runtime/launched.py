"""Whether a launcher started this process, and as which one; known before torch is imported."""

from __future__ import annotations

import os


def launched() -> bool:
    """Whether torchrun (or a launcher with its variables) started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def decides() -> bool:
    """Whether this process decides where the run goes: the first one, or the only one."""
    return not launched() or os.environ["RANK"] == "0"
