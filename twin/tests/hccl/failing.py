"""A call that must fail, and a collective to try."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from hccl_api import (
    FP32,
    NUMPY_TYPE,
    SUM,
    Buffer,
    Communicator,
    HcclError,
)

u64 = ctypes.c_uint64


def failing(comm: Communicator, call: Callable[[], None]) -> Any:
    """Text, async error and seconds of a call that must fail."""
    start = time.monotonic()
    try:
        call()
        comm.finish()
    except HcclError as error:
        return {"text": error.text, "code": comm.async_error(), "seconds": time.monotonic() - start}
    return {"text": "", "code": 0, "seconds": time.monotonic() - start}


def all_reduce(comm: Communicator, count: int = 4, data_type: int = FP32, op: int = SUM) -> Callable[[], None]:
    buffer = Buffer(comm.device, np.zeros(count, NUMPY_TYPE[data_type]))
    return lambda: comm.call("HcclAllReduce", buffer, buffer, u64(count), data_type, op)
