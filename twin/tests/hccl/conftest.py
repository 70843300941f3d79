"""Tests of libhccl: TWIN_LIB64 names the folder with the twin's libraries (default: where the image has them)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
