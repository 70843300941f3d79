"""Makes the helpers of hybrid_torchrec's tests importable, behind those of this folder."""

import sys
from pathlib import Path

HELPERS = Path(__file__).parents[2] / "hybrid_torchrec/tests"
FOLDERS = [str(folder) for folder in (HELPERS, HELPERS / "checkpoint", HELPERS / "distributed")]
sys.path += [folder for folder in FOLDERS if folder not in sys.path]
