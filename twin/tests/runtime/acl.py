"""libascendcl through ctypes, for scenarios that need no torch. Codes and kinds as in the wheel's acl headers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

lib = ctypes.CDLL("libascendcl.so")
lib.aclGetRecentErrMsg.restype = ctypes.c_char_p
lib.aclrtGetSocName.restype = ctypes.c_char_p

H2H, H2D, D2H, D2D = range(4)
HBM = 1
TIME_LINE = 8
PARAM_INVALID, INVALID_DEVICE, NO_CONTEXT, STREAM_CONTEXT = 107000, 107001, 107002, 107003
OUT_OF_MEMORY, NOT_SUPPORTED, TIMEOUT = 207001, 207000, 507012

TASK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
DROP = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
NO_DROP = ctypes.cast(None, DROP)
kept: list[object] = []  # a callback must outlive its task


def message() -> str:
    return lib.aclGetRecentErrMsg().decode()


def call(name: str, *arguments: object) -> None:
    error = getattr(lib, name)(*arguments)
    assert error == 0, f"{name}: {error}: {message()}"


def refused(code: int, name: str, *arguments: object) -> str:
    error = getattr(lib, name)(*arguments)
    assert error == code, f"{name}: {error}, expected {code}: {message()}"
    return message()


def create(name: str, *arguments: object) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    call(name, ctypes.byref(handle), *arguments)
    assert handle.value
    return handle


def stream() -> ctypes.c_void_p:
    return create("aclrtCreateStreamWithConfig", 0, 3)


def event() -> ctypes.c_void_p:
    return create("aclrtCreateEventExWithFlag", TIME_LINE)


def malloc(size: int) -> ctypes.c_void_p:
    return create("aclrtMalloc", ctypes.c_size_t(size), 0)


def submit(target: ctypes.c_void_p, body: Callable[[], int | None], name: str = "task") -> None:
    """Queues `body`; it returns an error code, or None for success."""
    task = TASK(lambda _: body() or 0)
    kept.append(task)
    call("twinStreamSubmit", target, name.encode(), task, NO_DROP, None)


def memory() -> tuple[int, int]:
    """Free and total bytes of the current device."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    call("aclrtGetMemInfo", HBM, ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def status(function: str, handle: ctypes.c_void_p) -> int:
    value = ctypes.c_int()
    call(function, handle, ctypes.byref(value))
    return value.value
