"""Samples of operators that mxrec:: alone has: a file each, named after the operator, with `arguments(device)`."""

import importlib
from collections.abc import Callable
from pathlib import Path

ALONE_IN_MXREC: dict[str, Callable[[str], tuple[object, ...]]] = {
    file.stem: importlib.import_module(f"{__name__}.{file.stem}").arguments
    for file in sorted(Path(__file__).parent.glob("[a-z]*.py"))
}
