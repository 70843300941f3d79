"""The kernels for Hopper where this process's Triton is not one that they were tested with.

PyTorch pins its Triton, and Gluon, in which they are written, is another language in each release. So a process of its
own compiles them, with the Triton in the folder that GR_OPS_TRITON names first on its path; no GPU is needed for it.
What comes out, a cubin and how its arguments lie in memory, is kept on disk, and launched by CUDA's driver.

    facts.py      what of a launch's arguments a compiled kernel depends on
    compiler.py   the process that compiles
    store.py      what was compiled, on disk
    driver.py     CUDA's driver
    launch.py     from arguments to a launch
    __main__.py   python -m gr_ops.cuda.cubins: compiles what the article's model needs, before a GPU is there
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

FOLDER = "GR_OPS_TRITON"


@cache
def folder() -> Path | None:
    """Where the other Triton is."""
    named = os.environ.get(FOLDER)
    return Path(named) if named else None


@cache
def version() -> str | None:
    """Its version; None: the kernels are this process's Triton's."""
    there = folder()
    if there is None:
        return None
    source = there / "triton" / "__init__.py"
    found = re.search(r"^__version__ = '([^']+)'", source.read_text(), re.MULTILINE) if source.is_file() else None
    if found is None:
        raise ImportError(f"{FOLDER}={there} holds no Triton; unset it, or name a folder that has triton/__init__.py")
    return found[1]
