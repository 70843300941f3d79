"""Runs a function in forked processes, one a rank, that find each other through the environment.

The parent imports PyTorch and torchrec once, which takes longer than most cases, and never touches a device or starts
a thread: a child opens its own NPU.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from .port import reserved

_FORK = multiprocessing.get_context("fork")
# what gloo says on the ranks whose partner has gone
_CONSEQUENCE = re.compile("Connection (closed|reset) by peer")
GRACE = 1.0  # seconds for the other ranks after one has failed: they may wait for it in vain


@dataclass(frozen=True)
class Failed:
    """`error`: type and message in a line; `details`: the traceback of the rank that failed first."""

    rank: int
    error: str
    details: str = ""


def run(
    function: Callable[..., Any], *arguments: Any, kind: str, world: int, log: Path, seconds: float = 120.0
) -> list[Any] | Failed:
    """What `function(*arguments)` returns on each rank, by rank; or the first failure.

    kind: `npu` (rank r has npu:r) or `cpu`. RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT
    are set. What the ranks print is appended to `log`.
    """
    with reserved() as port:
        connections, processes = _start(function, arguments, kind, world, port, log)
        try:
            return _collect(connections, processes, time.monotonic() + seconds, seconds)
        finally:
            for process in processes:
                with suppress(ProcessLookupError):
                    os.kill(process.pid or 0, signal.SIGKILL)
                process.join()


def _start(
    function: Callable[..., Any], arguments: tuple[Any, ...], kind: str, world: int, port: int, log: Path
) -> tuple[list[Connection], list[Any]]:
    sys.stdout.flush()
    sys.stderr.flush()
    connections, processes = [], []
    for rank in range(world):
        ours, theirs = _FORK.Pipe(duplex=False)
        setting = {
            "RANK": rank,
            "WORLD_SIZE": world,
            "LOCAL_RANK": rank,
            "LOCAL_WORLD_SIZE": world,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "GLOO_SOCKET_IFNAME": "lo",
        }
        process = _FORK.Process(target=_work, args=(function, arguments, kind, setting, theirs, log))
        process.start()
        theirs.close()
        connections.append(ours)
        processes.append(process)
    return connections, processes


def _collect(
    connections: list[Connection], processes: list[Any], deadline: float, seconds: float
) -> list[Any] | Failed:
    results: dict[int, Any] = {}
    failed: Failed | None = None
    waiting = dict(enumerate(connections))
    while waiting and time.monotonic() < deadline:
        ready = wait(list(waiting.values()), timeout=deadline - time.monotonic())
        for rank, connection in list(waiting.items()):
            if connection not in ready:
                continue
            del waiting[rank]
            outcome = _receive(rank, connection, processes[rank])
            if isinstance(outcome, Failed):
                failed = outcome if failed is None or _CONSEQUENCE.search(failed.error) else failed
                deadline = min(deadline, time.monotonic() + GRACE)
            else:
                results[rank] = outcome[0]
    if failed is None and waiting:
        failed = Failed(min(waiting), f"no answer from ranks {sorted(waiting)} within {seconds:.0f} s")
    return failed or [results[rank] for rank in sorted(results)]


def _receive(rank: int, connection: Connection, process: Any) -> Failed | tuple[Any]:
    try:
        passed, value = torch.load(io.BytesIO(connection.recv_bytes()), weights_only=False)
    except (EOFError, OSError):
        process.join()
        code = process.exitcode
        return Failed(rank, f"the process ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}")
    process.join()  # it leaves the process group before it ends
    return (value,) if passed else Failed(rank, *value)


def _work(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    kind: str,
    setting: dict[str, object],
    connection: Connection,
    log: Path,
) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update({name: str(value) for name, value in setting.items()})
    torch.set_num_threads(1)
    code = 0
    try:
        if kind == "npu":
            torch.npu.set_device(int(os.environ["RANK"]))  # type: ignore[attr-defined]
        else:
            _give_gloo_reduce_scatter()
        answer = (True, _on_host(function(*arguments)))
    except BaseException as error:
        traceback.print_exc()
        answer, code = (False, (_line(error), traceback.format_exc())), 1
    packed = io.BytesIO()
    torch.save(answer, packed)
    connection.send_bytes(packed.getvalue())
    connection.close()
    if code == 0 and kind == "npu" and dist.is_initialized():
        dist.destroy_process_group()
    os._exit(code)


def _on_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: _on_host(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_on_host(item) for item in value)
    return value


def _line(error: BaseException) -> str:
    text = str(error).split("[ERROR]")[0]  # torch_npu appends a line with time and process id
    return f"{type(error).__name__}: {' '.join(text.split())}"[:400]


class _Done:
    def wait(self) -> bool:
        return True


def _give_gloo_reduce_scatter() -> None:
    """gloo has no asynchronous reduce_scatter, with which torchrec shards rows: here the sum of all, of which each rank
    takes its part."""

    def summed(tensor: torch.Tensor, group: Any) -> torch.Tensor:
        tensor = tensor.detach().clone()
        dist.all_reduce(tensor, group=group)
        return tensor

    def reduce_scatter_tensor(
        output: torch.Tensor, input: torch.Tensor, op: Any = None, group: Any = None, async_op: bool = False
    ) -> _Done:
        parts = summed(input, group).view(dist.get_world_size(group), -1)
        output.copy_(parts[dist.get_rank(group)].view(output.shape))
        return _Done()

    def reduce_scatter(
        output: torch.Tensor, input_list: list[torch.Tensor], op: Any = None, group: Any = None, async_op: bool = False
    ) -> _Done:
        me = dist.get_rank(group)
        for rank, part in enumerate(input_list):
            total = summed(part, group)
            if rank == me:
                output.copy_(total)
        return _Done()

    dist.reduce_scatter_tensor = reduce_scatter_tensor
    dist.reduce_scatter = reduce_scatter
