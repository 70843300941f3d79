"""Brings gr_ops into programs that use an NPU and never import it.

``import torch`` calls `register` (entry point, group ``torch.backends``), which loads nothing: gr_ops is imported when
fbgemm_gpu has been (torchrec imports it), or when an operator of ``torch.ops.fbgemm`` or ``torch.ops.mxrec`` is looked
up that PyTorch has not seen yet. A program that imports torch_npu before torch calls no entry points, since torch_npu
switches them off; so ``gr_ops_autoload.pth`` imports this module when Python starts, and it waits for torch_npu.

Where gr_ops cannot be loaded, a warning says why and the program goes on without it: fbgemm's operators then run on
the host. Nothing happens where torch_npu is not installed, or with ``TORCH_DEVICE_BACKEND_AUTOLOAD=0``.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # every Python of the environment comes here: nothing is imported before it is needed
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NAMESPACES = ("fbgemm", "mxrec")
# The last thing that `import fbgemm_gpu` does, with its libraries loaded; seen in time also where fbgemm_gpu is what
# imports torch.
END_OF_FBGEMM = "fbgemm_gpu.sparse_ops"

_registered = False
_failed = False


def register() -> None:
    """Arrange for gr_ops to be imported when it is first needed."""
    import importlib.util

    global _registered
    if _registered or (sys.modules.get("torch_npu") is None and importlib.util.find_spec("torch_npu") is None):
        return
    _registered = True
    if END_OF_FBGEMM in sys.modules:
        load()
    else:
        _after(END_OF_FBGEMM, load)
    _watch_names()


def load() -> None:
    """Import gr_ops; never raises, and warns once."""
    import importlib
    import warnings

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


def _watch_names() -> None:
    import torch

    stock = getattr(torch._ops, "_OpNamespace", None)
    if stock is None:  # PyTorch's own affair; fbgemm_gpu's import is watched all the same
        return

    class Namespace(stock):  # type: ignore[misc,valid-type]
        """``torch.ops.NAME`` until gr_ops is loaded; then it is PyTorch's own class."""

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("__") and _fbgemm_is_whole():
                load()
                if not _in_progress("gr_ops"):  # it looks names up itself
                    self.__class__ = stock
            return stock.__getattr__(self, name)

    for name in NAMESPACES:
        if name not in vars(torch.ops):
            setattr(torch.ops, name, Namespace(name))


def _fbgemm_is_whole() -> bool:
    """False where a part of fbgemm_gpu's own import asks; where another thread imports it, waits for that."""
    import importlib

    if _in_progress("fbgemm_gpu"):
        importlib.import_module("fbgemm_gpu")
    return not _in_progress("fbgemm_gpu")


def _in_progress(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return getattr(spec, "_initializing", False)


class _After:
    """A finder that finds one module, as Python would, and lets an action follow its execution."""

    def __init__(self, module: str, action: Callable[[], None]) -> None:
        self.module, self.action = module, action

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.module:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_act(module: Any) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            self.action()

        setattr(spec.loader, "exec_module", execute_and_act)  # noqa: B010
        return spec


def _after(module: str, action: Callable[[], None]) -> None:
    sys.meta_path.insert(0, _After(module, action))


def _register_if_autoload_is_on() -> None:
    """torch_npu, imported first, sets the variable to 0 and keeps what it was."""
    now = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1")
    if getattr(sys.modules.get("torch_npu"), "ORG_AUTOLOAD", now) == "1":
        register()


if "torch_npu" not in sys.modules:
    _after("torch_npu", _register_if_autoload_is_on)
