"""Calls an operator of a libcust_opapi.so through its two-phase C interface, with numpy arrays as tensors.

Loads libascendcl and libnnopbase only: no torch, so the tests of the operators compare with numpy alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ND = 2
DATA_TYPES = {
    "float32": 0,
    "float16": 1,
    "int8": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 6,
    "int64": 9,
    "float64": 11,
    "bool": 12,
    "complex64": 16,
}
BFLOAT16 = 27


class AclnnError(RuntimeError):
    """A call returned a code; the message holds the text that the runtime left."""

    def __init__(self, call: str, code: int, text: str) -> None:
        super().__init__(f"{call} returned {code}: {text}")
        self.code = code
        self.text = text


@dataclass(frozen=True)
class Bits:
    """An array whose elements stand for another data type of the same width, such as bfloat16 in uint16."""

    array: np.ndarray
    code: int


@dataclass(frozen=True)
class Ints:
    """A ListInt attribute."""

    values: Sequence[int]


@dataclass(frozen=True)
class Scalar:
    """A host scalar: an array of no dimensions."""

    value: np.ndarray


@dataclass(frozen=True)
class HostTensor:
    """A tensor in host memory: its values are read when the call is planned."""

    array: np.ndarray


@dataclass(frozen=True)
class Shaped:
    """An output as large as it can get, whose shape the kernel decides on: `shape` is set by the call."""

    array: np.ndarray
    shape: list[int] = field(default_factory=list)

    @property
    def result(self) -> np.ndarray:
        """The elements that the shape counts: they lie at the front."""
        return self.array.reshape(-1)[: int(np.prod(self.shape))].reshape(self.shape)


def _bounds(array: np.ndarray) -> tuple[int, int]:
    """Addresses of the first byte and past the last byte that the array's elements occupy."""
    low = high = array.ctypes.data
    if array.size == 0:
        return low, low
    for extent, stride in zip(array.shape, array.strides):
        low += min(0, (extent - 1) * stride)
        high += max(0, (extent - 1) * stride)
    return low, high + array.itemsize


class Host:
    """One device and one stream of the runtime in `lib64`."""

    def __init__(self, lib64: Path) -> None:
        self.acl = ctypes.CDLL(str(lib64 / "libascendcl.so"), mode=ctypes.RTLD_GLOBAL)
        self.base = ctypes.CDLL(str(lib64 / "libnnopbase.so"), mode=ctypes.RTLD_GLOBAL)
        self.acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
        for name in ("aclCreateTensor", "aclCreateTensorList", "aclCreateIntArray", "aclCreateScalar"):
            getattr(self.base, name).restype = ctypes.c_void_p
        code = self.acl.aclInit(None)
        if code not in (0, 100002):
            raise AclnnError("aclInit", code, "")
        self._check("aclrtSetDevice", self.acl.aclrtSetDevice(0))
        self.stream = ctypes.c_void_p()
        self._check("aclrtCreateStream", self.acl.aclrtCreateStream(ctypes.byref(self.stream)))

    def _check(self, call: str, code: int) -> None:
        if code != 0:
            raise AclnnError(call, code, (self.acl.aclGetRecentErrMsg() or b"").decode())

    def call(self, library: Path, operator: str, *arguments: Any, form: str = "") -> None:
        """Run `operator`. Arrays are copied to the device and back; arrays may be strided views.

        `form`: "Tensor" plans by the function that takes tensors in the place of arrays of values.
        """
        opapi = ctypes.CDLL(str(library))
        plan = getattr(opapi, f"aclnn{operator}{form}GetWorkspaceSize")
        run = getattr(opapi, f"aclnn{operator}")
        staged = _Staged(self)
        try:
            size = ctypes.c_uint64()
            executor = ctypes.c_void_p()
            values = [staged.add(a) for a in arguments]
            code = plan(*values, ctypes.byref(size), ctypes.byref(executor))
            self._check(f"aclnn{operator}GetWorkspaceSize", code)
            workspace = staged.allocate(size.value)
            code = run(workspace, size, executor, self.stream)
            self._check(f"aclnn{operator}", code)
            code = self.acl.aclrtSynchronizeStream(self.stream)
            if code != 0:
                text = (self.acl.aclGetRecentErrMsg() or b"").decode()
                self.acl.aclrtDestroyStreamForce(self.stream)
                self._check("aclrtCreateStream", self.acl.aclrtCreateStream(ctypes.byref(self.stream)))
                raise AclnnError(f"aclnn{operator}", code, text)
            staged.copy_back()
        finally:
            staged.release()


class _Staged:
    """Device copies and handles of one call."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.memory: list[ctypes.c_void_p] = []
        self.handles: list[tuple[str, ctypes.c_void_p]] = []
        self.arrays: list[tuple[np.ndarray, ctypes.c_void_p, int]] = []
        self.shaped: list[tuple[Shaped, ctypes.c_void_p]] = []

    def allocate(self, size: int) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        if size:
            self.host._check("aclrtMalloc", self.host.acl.aclrtMalloc(ctypes.byref(pointer), ctypes.c_size_t(size), 0))
            self.memory.append(pointer)
        return pointer

    def add(self, argument: Any) -> Any:
        if argument is None:
            return ctypes.c_void_p()
        if isinstance(argument, Ints):
            values = (ctypes.c_int64 * len(argument.values))(*argument.values)
            return self._handle("aclDestroyIntArray", self.host.base.aclCreateIntArray(values, len(argument.values)))
        if isinstance(argument, Scalar):
            code = DATA_TYPES[argument.value.dtype.name]
            return self._handle(
                "aclDestroyScalar", self.host.base.aclCreateScalar(argument.value.ctypes.data_as(ctypes.c_void_p), code)
            )
        if isinstance(argument, HostTensor):
            return self._handle("aclDestroyTensor", self._tensor_at(argument.array, argument.array.ctypes.data))
        if isinstance(argument, Shaped):
            handle = self._handle("aclDestroyTensor", self.tensor(argument.array))
            self.shaped.append((argument, handle))
            return handle
        if isinstance(argument, (list, tuple)):
            members = [self.tensor(a) for a in argument]
            values = (ctypes.c_void_p * len(members))(*members)
            handle = self.host.base.aclCreateTensorList(values, ctypes.c_uint64(len(members)))
            return self._handle("aclDestroyTensorList", handle)
        if isinstance(argument, str):
            return ctypes.c_char_p(argument.encode())
        if isinstance(argument, float):
            return ctypes.c_double(argument)
        if isinstance(argument, (ctypes.c_double, ctypes.c_bool)):
            return argument
        if isinstance(argument, int):
            return ctypes.c_int64(argument)
        return self._handle("aclDestroyTensor", self.tensor(argument))

    def _handle(self, destroy: str, handle: int) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p(handle)
        self.handles.append((destroy, pointer))
        return pointer

    def tensor(self, argument: np.ndarray | Bits) -> int:
        array, code = (argument.array, argument.code) if isinstance(argument, Bits) else (argument, None)
        code = DATA_TYPES[array.dtype.name] if code is None else code
        low, high = _bounds(array)
        same = [d for a, d, start in self.arrays if a is array and high > low]
        if same:  # given twice: updated in place
            device = same[0]
        else:
            device = self.allocate(high - low)
            if high > low:
                self._copy(device, ctypes.c_void_p(low), high - low, 1)
            self.arrays.append((array, device, low))
        item = array.itemsize
        offset = (array.ctypes.data - low) // item if array.size else 0
        dims = (ctypes.c_int64 * array.ndim)(*array.shape)
        strides = (ctypes.c_int64 * array.ndim)(*[s // item for s in array.strides])
        storage = (ctypes.c_int64 * 1)((high - low) // item)
        return self.host.base.aclCreateTensor(
            dims,
            ctypes.c_uint64(array.ndim),
            code,
            strides,
            ctypes.c_int64(offset),
            ND,
            storage,
            ctypes.c_uint64(1),
            device,
        )

    def _tensor_at(self, array: np.ndarray, address: int) -> int:
        dims = (ctypes.c_int64 * array.ndim)(*array.shape)
        code = DATA_TYPES[array.dtype.name]
        return self.host.base.aclCreateTensor(
            dims,
            ctypes.c_uint64(array.ndim),
            code,
            None,
            ctypes.c_int64(0),
            ND,
            dims,
            ctypes.c_uint64(array.ndim),
            ctypes.c_void_p(address),
        )

    def _copy(self, target: Any, source: Any, size: int, kind: int) -> None:
        code = self.host.acl.aclrtMemcpy(target, ctypes.c_size_t(size), source, ctypes.c_size_t(size), kind)
        self.host._check("aclrtMemcpy", code)

    def copy_back(self) -> None:
        for array, device, low in self.arrays:
            if array.size and array.flags.writeable:
                high = _bounds(array)[1]
                self._copy(ctypes.c_void_p(low), device, high - low, 2)
        for output, handle in self.shaped:
            dims = ctypes.POINTER(ctypes.c_int64)()
            count = ctypes.c_uint64()
            code = self.host.base.aclGetViewShape(handle, ctypes.byref(dims), ctypes.byref(count))
            self.host._check("aclGetViewShape", code)
            output.shape[:] = dims[: count.value]

    def release(self) -> None:
        for destroy, handle in self.handles:
            getattr(self.host.base, destroy)(handle)
        for pointer in self.memory:
            self.host.acl.aclrtFree(pointer)
