"""Runs functions in children whose system calls on a folder fail or end the process (faulty_calls.c)."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("faulty_calls.c")
TIMEOUT_SECONDS = 120


@cache
def server(build: Path) -> Any:
    """Children are forked from a process that has imported everything, with the library preloaded."""
    library = build / "libfaulty.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    os.environ["FAULTY_LIBRARY"] = str(library)
    # The server gets its modules from PYTHONPATH only: Python 3.11 does not hand sys.path on to it.
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    os.environ["LD_PRELOAD"] = str(library)
    devices = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # the runtime of a device does not survive a fork
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["programs"])
    try:
        run(context, _nothing, Path("/nowhere"), 0)  # starts the server, which keeps the variable
    finally:
        del os.environ["LD_PRELOAD"], os.environ["PYTHONPATH"], os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
        if before is not None:
            os.environ["PYTHONPATH"] = before
        if devices is not None:
            os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = devices
    return context


def arm(folder: Path, calls: int, *, error: int = 0, percent: int = 0) -> None:
    """In the child: the ``calls``-th call fails with errno ``error`` from then on, or ends the process (0)."""
    library = ctypes.CDLL(os.environ["FAULTY_LIBRARY"])
    library.faulty_arm.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_char_p]
    library.faulty_arm(calls, error, percent, os.fsencode(folder))


def fail_reads(folder: Path) -> int:
    """In the child: reads give EIO, and those of mapped files SIGBUS; returns how many files are mapped."""
    arm(folder, 0)
    return int(ctypes.CDLL(os.environ["FAULTY_LIBRARY"]).faulty_reads(1))


def run(context: Any, program: Callable[..., None], folder: Path, *arguments: Any) -> tuple[list[Any], int]:
    """What program(send, folder, *arguments) sent before it ended, and its exit code; -9 if it was killed."""
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(program, sender, folder, arguments))
    child.start()
    sender.close()
    sent: list[Any] = []
    try:
        while receiver.poll(TIMEOUT_SECONDS):
            sent.append(receiver.recv())
        raise AssertionError(f"no sign of the child for {TIMEOUT_SECONDS} s, after {len(sent)} messages")
    except EOFError:
        child.join(TIMEOUT_SECONDS)
    finally:
        if child.exitcode is None:
            child.kill()
            child.join()
    return sent, child.exitcode


def _child(program: Callable[..., None], sender: Connection, folder: Path, arguments: tuple[Any, ...]) -> None:
    program(sender.send, folder, *arguments)


def _nothing(send: Callable[[Any], None], folder: Path, *_: Any) -> None:
    send(None)
