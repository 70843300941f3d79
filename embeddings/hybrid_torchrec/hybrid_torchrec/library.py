"""Finds and loads the shared library of the package."""

import os
from pathlib import Path

import torch

LIBRARY = "libhybrid_torchrec.so"
BUILD_COMMAND = "python -m pip install --no-deps --no-build-isolation embeddings/hybrid_torchrec"


def directory_of(package: str | Path, variable: str) -> Path:
    """Where a package's shared library is: the environment's `variable` (a CMake build folder), else beside its file
    `package`."""
    chosen = os.environ.get(variable)
    return Path(chosen) if chosen else Path(package).resolve().parent


def existing(path: Path, build_command: str) -> str:
    """`path`; ImportError, with the remedy, where there is no such library."""
    if not path.is_file():
        raise ImportError(f"{path} is missing; build it with: {build_command}")
    return str(path)


def library_directory() -> Path:
    """Where the shared library is: HYBRID_TORCHREC_LIBRARY_DIR (a CMake build folder), else beside this file."""
    return directory_of(__file__, "HYBRID_TORCHREC_LIBRARY_DIR")


def load() -> None:
    """Load the library, once. Called on import."""
    torch.ops.load_library(existing(library_directory() / LIBRARY, BUILD_COMMAND))
