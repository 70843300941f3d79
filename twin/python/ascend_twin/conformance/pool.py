"""Runs cases in forked children, so that a crash is one failed sample and not the end of the run.

This process never touches the device: a child inherits the imported PyTorch and opens the emulated NPU itself.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .calls import called
from .cases import Case, samples
from .checks import run
from .outcome import Outcome

GROUP = 32  # cases a child
SAMPLE_SECONDS = 120
CRASHES = 3  # of one case, then the rest of its samples count as failed
DEVICE_FAILED = 77  # exit code of a child whose device is not to be trusted any more
DEVICE_FAILURES = 500  # of one case, then the rest of its samples count as failed
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Begun:
    """A case has `samples` samples; or `error` says why they cannot be made."""

    case: Case
    samples: int
    error: str = ""


@dataclass(frozen=True)
class Tested:
    case: Case
    outcome: Outcome


@dataclass(frozen=True)
class Ended:
    case: Case


@dataclass(frozen=True)
class Called:
    """The aclnn functions that a child has called so far."""

    functions: tuple[str, ...]


Event = Begun | Tested | Ended | Called


@dataclass
class _Group:
    cases: deque[Case]
    next_sample: int = 0  # of the first case
    samples: int | None = None
    crashes: int = 0
    device_failures: int = 0


@dataclass
class _Child:
    group: _Group
    process: Any
    connection: Connection
    seen: float = field(default_factory=time.monotonic)


def _work(group: _Group, infos: dict[str, Any], connection: Connection, log: Path) -> None:
    """In the child: every sample of the group. It ends early when a sample leaves an asynchronous error on the device,
    after which the rest of a process is not trustworthy."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    warnings.simplefilter("ignore")
    skip = group.next_sample
    for case in group.cases:
        try:
            found, differentiable = samples(infos[case.op], case)
        except Exception as error:
            connection.send(Begun(case, 0, f"{type(error).__name__}: {error}"[:200]))
            connection.send(Ended(case))
            skip = 0
            continue
        connection.send(Begun(case, len(found)))
        for sample in found[skip:]:
            outcome = run(infos[case.op], sample, differentiable=differentiable)
            connection.send(Tested(case, outcome))
            if outcome.device_failed or (outcome.failed and _device_failed()):
                connection.send(Called(called()))
                connection.close()
                os._exit(DEVICE_FAILED)
        connection.send(Called(called()))
        connection.send(Ended(case))
        skip = 0
    connection.close()
    os._exit(0)


def _device_failed() -> bool:
    import torch

    try:
        torch.npu.synchronize()
    except RuntimeError:
        return True
    return False


def execute(
    cases: list[Case], infos: dict[str, Any], *, jobs: int, log: Path, tell: Callable[[str], None]
) -> Iterator[Event]:
    """The events of all cases; those of one case come in order, a `Tested` for each sample."""
    waiting = deque(_Group(deque(cases[start : start + GROUP])) for start in range(0, len(cases), GROUP))
    children: list[_Child] = []
    try:
        while waiting or children:
            while waiting and len(children) < jobs:
                children.append(_start(waiting.popleft(), infos, log))
            ready = wait([child.connection for child in children], timeout=1.0)
            for child in list(children):
                if child.connection in ready:
                    over = yield from _receive(child)
                elif time.monotonic() - child.seen > SAMPLE_SECONDS:
                    os.kill(child.process.pid, signal.SIGKILL)
                    over = False  # the closed connection tells
                else:
                    over = False
                if over:
                    children.remove(child)
                    yield from _mourn(child, tell)
                    if child.group.cases:
                        waiting.appendleft(child.group)
    finally:
        for child in children:
            child.process.kill()


def _start(group: _Group, infos: dict[str, Any], log: Path) -> _Child:
    ours, theirs = _FORK.Pipe(duplex=False)
    sys.stdout.flush()
    process = _FORK.Process(target=_work, args=(group, infos, theirs, log))
    process.start()
    theirs.close()
    return _Child(group, process, ours)


def _receive(child: _Child) -> Generator[Event, None, bool]:
    """One event of the child; returns whether the child is over."""
    child.seen = time.monotonic()
    group = child.group
    try:
        event = child.connection.recv()
    except (EOFError, OSError):
        return True
    if isinstance(event, Begun):
        first = group.samples is None
        group.samples = event.samples
        if not first:
            return False  # begun by a child that ended early
    elif isinstance(event, Tested):
        group.next_sample += 1
    elif isinstance(event, Ended):
        _next_case(group)
    yield event
    return False


def _next_case(group: _Group) -> None:
    group.cases.popleft()
    group.next_sample, group.samples, group.crashes, group.device_failures = 0, None, 0, 0


def _mourn(child: _Child, tell: Callable[[str], None]) -> Iterator[Event]:
    """After a child's end: the sample that it did not finish, if it crashed, has failed."""
    child.process.join()
    child.connection.close()
    code, group = child.process.exitcode, child.group
    if code == 0 or not group.cases:
        return
    case = group.cases[0]
    if group.samples is None:
        group.samples = 1
        yield Begun(case, 1)
    if code == DEVICE_FAILED:  # the sample that did it is counted
        group.device_failures += 1
        lost, how = 0, f"not run: the device failed {DEVICE_FAILURES} times in this case"
    else:
        group.crashes += 1
        lost, how = 1, f"the process crashed: {_ending(code)}"
        tell(f"crash: {case.op} {case.dtype} sample {group.next_sample}: {_ending(code)}")
    if group.crashes >= CRASHES or group.device_failures >= DEVICE_FAILURES:
        lost = group.samples - group.next_sample
    for _ in range(lost):
        group.next_sample += 1
        yield Tested(case, Outcome(("forward",), (("forward", how),)))
    if group.next_sample >= group.samples:
        yield Ended(case)
        _next_case(group)


def _ending(code: int) -> str:
    if code == -signal.SIGKILL:
        return f"no answer for {SAMPLE_SECONDS} s"
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
