"""PyTorch's entry point of gr_ops (group ``torch.backends``): programs that never import it get its operators too.

``import torch`` calls `register`, which loads nothing: gr_ops is imported when fbgemm_gpu has been (torchrec imports
it), or when an operator of ``torch.ops.fbgemm`` or ``torch.ops.mxrec`` is looked up that PyTorch has not seen yet.
Where gr_ops cannot be loaded, a warning says why and the program goes on without it: fbgemm's operators then run on
the host. Nothing happens where torch_npu is not installed, or with ``TORCH_DEVICE_BACKEND_AUTOLOAD=0``.
"""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

import torch

NAMESPACES = ("fbgemm", "mxrec")
# The last thing that `import fbgemm_gpu` does, with its libraries loaded; seen in time also where fbgemm_gpu is what
# imports torch.
END_OF_FBGEMM = "fbgemm_gpu.sparse_ops"


def register() -> None:
    """Arrange for gr_ops to be imported when it is first needed; called once, by ``import torch``."""
    if "torch_npu" not in sys.modules and importlib.util.find_spec("torch_npu") is None:
        return
    sys.meta_path.insert(0, _AfterFbgemm())
    for name in NAMESPACES:
        if name not in vars(torch.ops):
            setattr(torch.ops, name, _Namespace(name))


def load() -> None:
    """Import gr_ops; never raises, and warns once."""
    global _failed
    if _failed:
        return
    try:
        importlib.import_module("gr_ops")
    except Exception as error:  # whatever it is, the program did not ask for gr_ops
        _failed = True
        reason = " ".join(str(error).split())
        text = f"gr_ops cannot be loaded, fbgemm's operators run on the host: {type(error).__name__}: {reason}"
        warnings.warn_explicit(text, UserWarning, "gr_ops_autoload", 0)  # a line, without one of source


_failed = False


class _AfterFbgemm:
    """A finder that finds nothing but lets `load` run after the module END_OF_FBGEMM."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != END_OF_FBGEMM:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            sys.meta_path.remove(self)
            setattr(spec.loader, "exec_module", _then_load(spec.loader.exec_module))  # noqa: B010
        return spec


def _then_load(execute: Callable[[ModuleType], Any]) -> Callable[[ModuleType], None]:
    def execute_and_load(module: ModuleType) -> None:
        execute(module)
        load()

    return execute_and_load


class _Namespace(torch._ops._OpNamespace):
    """``torch.ops.NAME`` until gr_ops is loaded; then it is PyTorch's own class."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and not _in_progress("fbgemm_gpu"):
            load()
            self.__class__ = torch._ops._OpNamespace
        return torch._ops._OpNamespace.__getattr__(self, name)


def _in_progress(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return getattr(spec, "_initializing", False)
