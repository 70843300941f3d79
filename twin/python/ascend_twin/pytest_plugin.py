"""pytest on the emulated NPU: a failure that an operator leaves behind is the failure of its own test only.

An operator runs after the call that asked for it, and a failed device stays failed, as on hardware. So after each phase
of a test the devices are waited for: a failure that the test did not see itself fails it, and the devices are reset for
the next one. `TASK_QUEUE_ENABLE=0`, unless it is set: with torch_npu's task queue such a failure ends the queue, which
only a new process has again.

Loaded by pytest through the entry point `ascend_twin`; `-p no:ascend_twin` leaves it out. Where torch_npu runs on
anything but the emulation it does nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from ascend_twin import compile_guard
from ascend_twin.home import is_twin

QUEUE = "TASK_QUEUE_ENABLE"
NO_LIMIT = 0


def on_twin() -> bool:
    home = os.environ.get("ASCEND_HOME_PATH", "")
    return bool(home) and is_twin(Path(home))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Before any conftest imports torch: torch_npu reads the variable once."""
    if on_twin():
        os.environ.setdefault(QUEUE, "0")


def pytest_collection_finish() -> None:
    """For tests that import torch_npu before torch, which then does not call the guard itself."""
    if "torch_npu" in sys.modules:
        compile_guard.register()


def pytest_report_header() -> str | None:
    if not on_twin():
        return None
    return f"ascend-twin: emulated NPU, reset after each test that fails it; {QUEUE}={os.environ.get(QUEUE, '1')}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    yield from _isolated(item, "setup")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    yield from _isolated(item, "call")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    yield from _isolated(item, "teardown")


def _isolated(item: pytest.Item, phase: str) -> Generator[None, None, None]:
    try:
        yield
    except BaseException:
        failures = _settle(item.session)
        if failures:
            item.add_report_section(phase, "ascend-twin", "\n".join(text for text, _ in failures))
        raise
    unseen = [text for text, seen in _settle(item.session) if not seen]
    if unseen:
        pytest.fail("an operator failed on the device after its call:\n" + "\n".join(unseen), pytrace=False)


def _settle(session: pytest.Session) -> list[tuple[str, bool]]:
    """Waits for the devices and resets those that failed: what each failed of, and whether the test saw it."""
    runtime = _runtime()
    if runtime is None:
        return []
    count = ctypes.c_uint32()
    runtime.aclrtGetDeviceCount(ctypes.byref(count))
    seen = [bool(runtime.twinDeviceFailureSeen(device)) for device in range(count.value)]
    _synchronize(runtime, count.value)
    failures = []
    for device in range(count.value):
        text = runtime.twinDeviceFailure(device)
        if text is None:
            continue
        failures.append((text.decode(errors="replace"), seen[device]))
        if runtime.aclrtDeviceTaskAbort(device, NO_LIMIT) != 0:
            session.shouldstop = (
                f"npu:{device} cannot be reset: torch_npu's task queue ended with the failure; "
                f"run the tests with {QUEUE}=0"
            )
    return failures


def _synchronize(runtime: ctypes.CDLL, count: int) -> None:
    torch = sys.modules.get("torch")
    npu = getattr(torch, "npu", None)
    if npu is not None and npu.is_initialized():
        with contextlib.suppress(RuntimeError):  # the runtime is asked below
            npu.synchronize()  # torch_npu's task queue too
    current = ctypes.c_int32()
    if runtime.aclrtGetDevice(ctypes.byref(current)) != 0:
        return  # this thread has used no device
    for device in range(count):
        runtime.aclrtSetDevice(device)
        runtime.aclrtSynchronizeDevice()
    runtime.aclrtSetDevice(current.value)


def _runtime() -> ctypes.CDLL | None:
    """libascendcl, if this process has loaded it and it is the emulation's."""
    try:
        library = ctypes.CDLL("libascendcl.so", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        library.twinDeviceFailure.restype = ctypes.c_char_p
        library.twinDeviceFailureSeen.restype = ctypes.c_int32
    except (OSError, AttributeError):
        return None
    return library
