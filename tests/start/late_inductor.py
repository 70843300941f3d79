"""torch_npu without Inductor until something imports that.

One module of torch_npu imports all of Inductor, for graphs that are captured: a quarter of the processor time of
`import torch`. Here its turn comes when Inductor has been imported, before anything is compiled. Until then its back
end `npugraphs` is not there. Programs that have imported Inductor first, slow tests and real NPUs do without this.
"""

import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

GRAPHS = "torch_npu.utils._graph_tree"
APPLY = "_apply_npugraph_tree_methods"  # what torch_npu calls of it, once
INDUCTOR = "torch._inductor.compile_fx"


class Late:
    def __init__(self) -> None:
        self.graphs: ModuleType | None = None
        self.applied = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name == GRAPHS and INDUCTOR not in sys.modules:
            return importlib.machinery.ModuleSpec(name, self)  # type: ignore[arg-type]
        if name != INDUCTOR or self.graphs is None:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                package, _, child = name.rpartition(".")
                setattr(sys.modules[package], child, module)  # as it is once the import is over
                self.catch_up()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """As usual."""

    def exec_module(self, module: ModuleType) -> None:
        def apply() -> None:
            self.applied = True

        def of_the_real_one(name: str) -> Any:
            if name.startswith("__"):  # what inspect asks of every module
                raise AttributeError(name)
            importlib.import_module(INDUCTOR)
            return getattr(module, name)

        self.graphs = module
        vars(module).update({APPLY: apply, "__getattr__": of_the_real_one})

    def catch_up(self) -> None:
        assert self.graphs is not None
        spec = importlib.machinery.PathFinder.find_spec(GRAPHS, sys.modules[GRAPHS.rpartition(".")[0]].__path__)
        assert spec is not None and spec.loader is not None
        del vars(self.graphs)["__getattr__"]
        vars(self.graphs).update(__spec__=spec, __loader__=spec.loader, __file__=spec.origin)
        spec.loader.exec_module(self.graphs)
        if self.applied:
            getattr(self.graphs, APPLY)()
