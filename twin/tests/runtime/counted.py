"""Programs whose launches, waits and copies are known, each in a step of TWIN_COUNTS, marked as on a device."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch_npu  # noqa: F401

mstx = ctypes.CDLL("libms_tools_ext.so")
mstx.mstxRangeStartA.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
mstx.mstxRangeStartA.restype = ctypes.c_uint64
mstx.mstxRangeEnd.argtypes = [ctypes.c_uint64]
mstx.mstxMarkA.argtypes = [ctypes.c_char_p, ctypes.c_void_p]


@contextmanager
def step(name: str) -> Iterator[None]:
    opened = mstx.mstxRangeStartA(f"step {name}".encode(), None)
    yield
    mstx.mstxRangeEnd(opened)


def main() -> None:
    host = torch.ones(64, 64)
    pinned, back = torch.ones(1024).pin_memory(), torch.empty(1024).pin_memory()
    with step("to"):
        x = host.npu()
    with step("matmul"):
        y = x @ x
    with step("item"):
        y.sum().item()
    with step("to host"):
        y.cpu()
    with step("pinned"):
        flat = pinned.to("npu", non_blocking=True)
    with step("pinned, waiting"):
        pinned.to("npu")
    with step("pinned back"):
        back.copy_(flat, non_blocking=True)
    with step("between devices"):
        x.to("npu:1")
    with step("synchronise"):
        torch.npu.synchronize()
    with step("nonzero"):
        x.nonzero()
    with step("mask"):
        x[x > 0]
    with step("tolist"):
        flat[:3].tolist()
    with step("view"):
        x.t()[1:].select(0, 1).unsqueeze(0).squeeze(0)
    streams(x)
    memory()
    marks(x)
    with step("sum of both"), torch.no_grad():
        torch.add(x, x)
        torch.add(x, x)
    mstx.mstxRangeStartA(b"step that nothing ends", None)
    torch.add(x, x)


def streams(x: torch.Tensor) -> None:
    side = torch.npu.Stream()
    with step("streams"):
        event = torch.npu.Event()
        with torch.npu.stream(side):
            x + 1
            event.record()
        torch.npu.current_stream().wait_event(event)  # the device's wait, not the host's
        event.synchronize()
        side.synchronize()


def memory() -> None:
    torch.npu.empty_cache()
    with step("memory"):
        large = torch.empty(64 << 20, dtype=torch.uint8, device="npu")
        del large
        torch.npu.empty_cache()


def marks(x: torch.Tensor) -> None:
    """A step lasts from one mark to the next; what is no step by its name changes nothing."""
    mstx.mstxMarkA(b"step marked 1", None)
    x + x
    inner = mstx.mstxRangeStartA(b"attention", None)
    mstx.mstxMarkA(b"step marked 2", None)
    mstx.mstxRangeEnd(inner)
    mstx.mstxMarkA(b"done", None)
    x * x


if __name__ == "__main__":
    main()
