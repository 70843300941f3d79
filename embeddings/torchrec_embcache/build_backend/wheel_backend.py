"""PEP 517 backend of this package; what packages share is in recipes/wheels."""

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT.parents[1] / "recipes/wheels"))

from native_wheel import NativeWheel  # noqa: E402

WHEEL = NativeWheel(root=ROOT, package="torchrec_embcache", libraries=("libembcache_store.so",))


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel into wheel_directory and return its file name."""
    return WHEEL.build(wheel_directory)
