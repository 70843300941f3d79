"""What interpreted kernels read and write: each address must lie inside of a tensor, as on a GPU."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from triton.runtime import interpreter

METHODS = {  # of the interpreter's builder: where in its arguments the pointers are, and their mask
    "create_masked_load": (0, 1),
    "create_masked_store": (0, 2),
    "create_atomic_cas": (0, None),
    "create_atomic_rmw": (1, 3),
}


class OutsideError(Exception):
    pass


class Tensors:
    """The memory of every tensor that is alive."""

    def __init__(self) -> None:
        storages = [x.untyped_storage() for x in gc.get_objects() if type(x) in (torch.Tensor, torch.nn.Parameter)]
        spans = sorted({(x.data_ptr(), x.data_ptr() + x.nbytes()) for x in storages if x.nbytes()})
        self.begin, end = np.array(spans, np.uint64).reshape(-1, 2).T
        self.end = np.maximum.accumulate(end)

    def outside(self, addresses: np.ndarray, size: int) -> int:
        """How many of `addresses` have not `size` bytes of a tensor."""
        at = np.searchsorted(self.begin, addresses, side="right").astype(np.int64) - 1
        return int(((at < 0) | (addresses + np.uint64(size) > self.end[np.maximum(at, 0)])).sum())


@contextmanager
def looked_at() -> Iterator[list[str]]:
    """Inside, kernels raise OutsideError; the names of those that were launched."""
    launched: list[str] = []
    tensors: list[Tensors] = []
    builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
    stock = {name: getattr(builder, name) for name in METHODS}
    begin = executor._init_args_hst

    def checked(name: str) -> Any:
        place, mask_at = METHODS[name]

        def call(self: Any, *arguments: Any) -> Any:
            pointers = arguments[place]
            wanted = np.asarray(pointers.data).astype(np.uint64)
            if mask_at is not None:
                wanted = wanted[np.broadcast_to(np.asarray(arguments[mask_at].data).astype(bool), wanted.shape)]
            size = np.dtype(interpreter._get_np_dtype(pointers.get_element_ty())).itemsize
            if outside := tensors[-1].outside(wanted.ravel(), size):
                raise OutsideError(f"{launched[-1]}: {name} of {outside} addresses outside of every tensor")
            return stock[name](self, *arguments)

        return call

    def begun(self: Any, *arguments: Any) -> Any:
        given = begin(self, *arguments)
        launched.append(self.fn.__name__)
        tensors[:] = [Tensors()]
        return given

    try:
        executor._init_args_hst = begun
        for name in METHODS:
            setattr(builder, name, checked(name))
        yield launched
    finally:
        executor._init_args_hst = begin
        for name, method in stock.items():
            setattr(builder, name, method)
