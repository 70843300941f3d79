"""The processes of a run: one alone, or those that torchrun started, over gloo, hccl or nccl."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist

from gr_model.common import ticker
from gr_model.common.errors import GrModelError
from gr_model.common.ticker import Say, Ticker
from gr_model.data.interactions import History
from gr_model.runtime.launched import launched

BACKENDS = {"cpu": "gloo", "npu": "hccl", "cuda": "nccl"}
TIMEOUT = datetime.timedelta(minutes=30)


class WorldError(GrModelError, RuntimeError):
    pass


@dataclass(frozen=True)
class World:
    """This process among all. With one process nothing is sent and every sum is what it was."""

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")
    host: dist.ProcessGroup | None = None  # the same processes over gloo, beside an NPU's or a GPU's own connection

    @property
    def first(self) -> bool:
        """Whether this process writes the log, the report and the progress."""
        return self.rank == 0

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """Element by element over all processes, on every one; in place. Float64 counts go as they are on the CPU."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def sum_of_numbers(self, *numbers: float) -> list[float]:
        """Of what the hosts know, each number over all processes. A device that has work to do is not waited for."""
        if self.size == 1:
            return list(numbers)
        on_host = self.host is not None
        values = torch.tensor(numbers, dtype=torch.float64, device="cpu" if on_host else self.device)
        dist.all_reduce(values, group=self.host)
        summed: list[float] = values.tolist()
        return summed

    def barrier(self) -> None:
        """Returns when all processes have come here. The value is read: a device's sum alone does not wait for them."""
        if self.size > 1:
            self.sum(torch.zeros(1, device=self.device)).item()

    def broadcast(self, text: str) -> str:
        """The first process's text, on every one."""
        mine = np.frombuffer(text.encode() if self.first else b"", np.uint8)
        return self.gather(mine).tobytes().decode()

    def batches(
        self, users: Sequence[History], batch: int, say: Say = ticker.nothing
    ) -> Iterator[tuple[Sequence[History], bool]]:
        """This process's batches of `users`, and whether each counts; one after the other, as users lie on disk.

        All processes get equally many, because the lookups of sharded tables are common to all; one that has fewer
        repeats the first batch of all, which then does not count.
        """
        starts = range(0, len(users), batch)
        each = -(-len(starts) // self.size)
        tick = Ticker(say)
        for turn in range(self.rank * each, (self.rank + 1) * each):
            counts = turn < len(starts)
            start = starts[turn] if counts else 0
            yield users[start : start + batch], counts
            done = turn + 1 - self.rank * each
            tick(f"evaluation: {done:,} of {each:,} batches so far")

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """The rows of all processes, those of process 0 first; their number may differ."""
        if self.size == 1:
            return rows
        place = self.device if self.host is None else torch.device("cpu")
        counts = torch.zeros(self.size, dtype=torch.int64, device=place)
        counts[self.rank] = len(rows)
        dist.all_reduce(counts, group=self.host)
        counts_R = counts.tolist()
        # As words: backends differ in the types that they send.
        raw = np.frombuffer(np.ascontiguousarray(rows).tobytes(), np.uint8)
        row_bytes = int(rows.dtype.itemsize * np.prod(rows.shape[1:], dtype=np.int64))
        words = np.zeros(-(-max(max(counts_R) * row_bytes, 1) // 4), np.int32)
        words.view(np.uint8)[: len(raw)] = raw
        padded = torch.from_numpy(words).to(place)
        everyone = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(everyone, padded, group=self.host)
        parts = [
            np.frombuffer(part.cpu().numpy().tobytes()[: count * row_bytes], rows.dtype)
            for part, count in zip(everyone, counts_R)
        ]
        return np.concatenate([part.reshape(-1, *rows.shape[1:]) for part in parts])


def local_device(kind: str) -> str:
    """`npu` becomes `npu:1` on the second process of a machine."""
    if launched() and kind in ("npu", "cuda"):
        return f"{kind}:{os.environ.get('LOCAL_RANK', '0')}"
    return kind


def join(device: torch.device) -> World:
    """Connects the launched processes; a process alone needs none. WorldError if they cannot find each other."""
    if not launched():
        return World(device=device)
    try:
        dist.init_process_group(BACKENDS[device.type], timeout=TIMEOUT)
    except (ValueError, RuntimeError, dist.DistError) as error:
        raise WorldError(f"the processes cannot connect over {BACKENDS[device.type]}: {error}") from error
    os.environ.setdefault("LOCAL_RANK", os.environ["RANK"])
    os.environ.setdefault("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"])
    return World(dist.get_rank(), dist.get_world_size(), device, _between_hosts(device))


def _between_hosts(device: torch.device) -> dist.ProcessGroup | None:
    if device.type == "cpu":
        return None
    try:
        return dist.new_group(backend="gloo", timeout=TIMEOUT)
    except (ValueError, RuntimeError, dist.DistError) as error:
        raise WorldError(
            f"the hosts of {BACKENDS[device.type]}'s devices cannot connect over gloo: {error}; name their network: "
            "export GLOO_SOCKET_IFNAME=eth0"
        ) from error


def leave() -> None:
    if dist.is_initialized():
        # gloo's thread frees the tensors of the last collective under the GIL, which the group's destructor does not
        # release while it waits for that thread.
        time.sleep(0.2)
        dist.destroy_process_group()
