"""Children of a process that has imported everything: a test of ranks or of kills costs a fork, not an import.

Torch runs on one thread here, since no thread of the parent lives on in a child.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable

import torch


def start(work: Callable[[], None]) -> int:
    """Forks a child that does `work` and exits; returns its process id. Its errors go to its standard error."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    try:
        one_thread()  # a child's pool of threads is made anew, which two threads cannot do at once (seen once)
        work()
        sys.stdout.flush()
        code = 0
    except BaseException:
        traceback.print_exc()
        code = 1
    os._exit(code)


def wait(child: int, seconds: float = 600.0) -> int:
    """The child's exit code, -9 if it was killed; after `seconds` it is killed and TimeoutError raised."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise TimeoutError(f"child {child} did not end in {seconds:.0f} s")


def without_devices() -> dict[str, str]:
    """Environment of a program that forks: the runtime of a device does not survive it."""
    return {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


def one_thread() -> None:
    torch.set_num_threads(1)


def ranks(world: int, folder: str, work: Callable[[int], None]) -> list[int]:
    """Runs work(rank) in `world` children of one gloo group; returns their exit codes."""
    import torch.distributed as dist

    meeting = os.path.join(folder, f"meeting-{world}-{time.monotonic_ns()}")

    def member(rank: int) -> None:
        faulthandler.dump_traceback_later(300, exit=False)
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
        work(rank)
        # gloo's thread frees the tensors of the last collective under the GIL, which the group's destructor does not
        # release while it waits for that thread.
        time.sleep(0.2)
        dist.destroy_process_group()

    started = [start(lambda rank=rank: member(rank)) for rank in range(world)]
    return [wait(child) for child in started]
