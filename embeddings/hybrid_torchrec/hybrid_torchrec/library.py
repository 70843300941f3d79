"""Finds and loads the shared library of the package."""

import os
from pathlib import Path

import torch

LIBRARY = "libhybrid_torchrec.so"
BUILD_COMMAND = "python -m pip install --no-deps --no-build-isolation embeddings/hybrid_torchrec"


def library_directory() -> Path:
    """Where the shared library is: HYBRID_TORCHREC_LIBRARY_DIR (a CMake build folder), else beside this file."""
    chosen = os.environ.get("HYBRID_TORCHREC_LIBRARY_DIR")
    return Path(chosen) if chosen else Path(__file__).resolve().parent


def load() -> None:
    """Load the library, once. Called on import."""
    path = library_directory() / LIBRARY
    if not path.is_file():
        raise ImportError(f"{path} is missing; build it with: {BUILD_COMMAND}")
    torch.ops.load_library(str(path))
