"""HCCL and the little of ACL that it needs, through ctypes: one rank of a job without torch."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]

LIBRARIES = Path(os.environ.get("TWIN_LIB64", "/usr/local/Ascend/ascend-toolkit/latest/lib64"))
ROOT_INFO_BYTES = 4108
CONFIG_BYTES = 24 + 4 + 4 + 128 + 128 + 4 + 4 + 4 + 4 + 8
SUM, PROD, MAX, MIN = range(4)
SUCCESS, E_PARA, E_PTR, E_NOT_SUPPORT, E_TIMEOUT, E_REMOTE = 0, 1, 2, 5, 9, 21
INT8, INT16, INT32, FP16, FP32, INT64, UINT64, UINT8, UINT16, UINT32, FP64, BFP16 = range(12)
NUMPY_TYPE = {
    INT8: np.int8,
    INT16: np.int16,
    INT32: np.int32,
    FP16: np.float16,
    FP32: np.float32,
    INT64: np.int64,
    UINT64: np.uint64,
    UINT8: np.uint8,
    UINT16: np.uint16,
    UINT32: np.uint32,
    FP64: np.float64,
    BFP16: np.uint16,  # numpy has no bfloat16: its bits
}


class HcclError(Exception):
    def __init__(self, function: str, code: int, text: str) -> None:
        super().__init__(f"{function}: {code}: {text}")
        self.code = code
        self.text = text


class SendRecvItem(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("buf", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("data_type", ctypes.c_int),
        ("remote_rank", ctypes.c_uint32),
    ]


class Buffer:
    """Device memory that holds one array."""

    def __init__(self, device: Device, values: Array) -> None:
        self._device = device
        self._values = np.ascontiguousarray(values)
        self.address = ctypes.c_void_p()
        device.acl("aclrtMalloc", ctypes.byref(self.address), ctypes.c_size_t(max(values.nbytes, 1)), 0)
        self._copy(self.address, self._values.ctypes.data, 1)

    def _copy(self, to: object, source: object, kind: int) -> None:
        size = ctypes.c_size_t(self._values.nbytes)
        self._device.acl("aclrtMemcpy", to, size, source, size, kind)

    def read(self) -> Array:
        values = np.empty_like(self._values)
        self._copy(ctypes.c_void_p(values.ctypes.data), self.address, 2)
        return values


class Device:
    """A simulated device with the loaded libraries."""

    def __init__(self, number: int = 0) -> None:
        self._acl = ctypes.CDLL(str(LIBRARIES / "libascendcl.so"), mode=ctypes.RTLD_GLOBAL)
        self._acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self._hccl = ctypes.CDLL(str(LIBRARIES / "libhccl.so"))
        self.acl("aclInit", None)
        self.acl("aclrtSetDevice", number)

    def error_text(self) -> str:
        return (self._acl.aclGetRecentErrMsg() or b"").decode()

    def acl(self, function: str, *arguments: object) -> None:
        code = getattr(self._acl, function)(*[_pointer(a) for a in arguments])
        if code != 0:
            raise HcclError(function, code, self.error_text())

    def hccl(self, function: str, *arguments: object) -> None:
        code = getattr(self._hccl, function)(*[_pointer(a) for a in arguments])
        if code != 0:
            raise HcclError(function, code, self.error_text())

    def capability(self) -> int:
        return int(self._hccl.HcclGetCommConfigCapability())

    def stream(self) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.acl("aclrtCreateStream", ctypes.byref(made))
        return made

    def root_info(self) -> ctypes.Array[ctypes.c_char]:
        info = ctypes.create_string_buffer(ROOT_INFO_BYTES)
        self.hccl("HcclGetRootInfo", info)
        return info


def _pointer(argument: object) -> object:
    if isinstance(argument, Buffer):
        return argument.address
    if isinstance(argument, int) and abs(argument) > 0x7FFFFFFF:
        return ctypes.c_uint64(argument)
    return argument


def counts(values: Sequence[int]) -> ctypes.Array[ctypes.c_uint64]:
    return (ctypes.c_uint64 * len(values))(*values)


def offsets(values: Sequence[int]) -> list[int]:
    """Where each part starts when they lie one after the other."""
    return [sum(values[:i]) for i in range(len(values))]


class Communicator:
    """One rank's handle; the methods queue on `self.stream` unless told otherwise."""

    def __init__(self, device: Device, handle: ctypes.c_void_p, rank: int, size: int) -> None:
        self.device, self.handle, self.rank, self.size = device, handle, rank, size
        self.stream = device.stream()

    def call(self, function: str, *arguments: object, stream: ctypes.c_void_p | None = None) -> None:
        self.device.hccl(function, *arguments, self.handle, stream or self.stream)

    def finish(self, stream: ctypes.c_void_p | None = None) -> None:
        self.device.acl("aclrtSynchronizeStream", stream or self.stream)

    def all_reduce(self, values: Array, data_type: int, op: int = SUM) -> Array:
        source, result = Buffer(self.device, values), Buffer(self.device, np.zeros_like(values))
        self.call("HcclAllReduce", source, result, ctypes.c_uint64(values.size), data_type, op)
        self.finish()
        return result.read()

    def async_error(self) -> int:
        code = ctypes.c_int(-1)
        self.device.hccl("HcclGetCommAsyncError", self.handle, ctypes.byref(code))
        return code.value

    def name(self) -> str:
        text = ctypes.create_string_buffer(128)
        self.device.hccl("HcclGetCommName", self.handle, text)
        return text.value.decode()

    def destroy(self) -> None:
        self.device.hccl("HcclCommDestroy", self.handle)


class Job:
    """What a worker process knows of its job: its rank and a folder shared with the other ranks."""

    def __init__(self, rank: int, size: int, folder: Path) -> None:
        self.rank, self.size, self.folder = rank, size, folder
        self.device = Device()

    def publish(self, name: str, content: bytes = b"") -> None:
        draft = self.folder / f".{name}.{self.rank}"
        draft.write_bytes(content)
        draft.rename(self.folder / name)

    def await_file(self, name: str, seconds: float = 60) -> bytes:
        end = time.monotonic() + seconds
        while not (self.folder / name).exists():
            if time.monotonic() > end:
                raise TimeoutError(name)
            time.sleep(0.01)
        return (self.folder / name).read_bytes()

    def communicator(self, name: str = "world", ranks: int | None = None, config_name: str = "") -> Communicator:
        if self.rank == 0:
            self.publish(name, bytes(self.device.root_info()))
        info = ctypes.create_string_buffer(self.await_file(name), ROOT_INFO_BYTES)
        handle = ctypes.c_void_p()
        size = ranks or self.size
        if config_name:
            config = ctypes.create_string_buffer(CONFIG_BYTES)
            ctypes.memmove(ctypes.byref(config, 8), (0xF0F0F0F0).to_bytes(4, "little"), 4)
            ctypes.memmove(ctypes.byref(config, 32), config_name.encode(), len(config_name))
            self.device.hccl("HcclCommInitRootInfoConfig", size, info, self.rank, config, ctypes.byref(handle))
        else:
            self.device.hccl("HcclCommInitRootInfo", size, info, self.rank, ctypes.byref(handle))
        return Communicator(self.device, handle, self.rank, size)
