"""Every Python that a suite starts: the garbage collector leaves alone what `import torch` brings.

Torch with torch_npu imports 2,400 modules, whose objects all stay. The collector goes through them again and again: a
fifth of the processor time of the import, and at the end of a program a quarter of what the whole program took. A gate
imports torch many hundred times. What comes after the import is collected as ever. And Inductor is imported when a
program wants it (late_inductor.py).
"""

import gc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

import late_inductor


class WithoutCollections:
    """Finds torch as the others do, once, and steps aside."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(cls)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                gc.disable()
                try:
                    execute(module)
                finally:
                    gc.freeze()
                    gc.enable()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, WithoutCollections)
if "GRSTACK_NPUS" not in os.environ and os.environ.get("GRSTACK_FORK_RANKS") != "0":
    sys.meta_path.insert(0, late_inductor.Late())
