"""A collective whose result is used with and without a wait, on two ranks (torchrun). Prints what each raised."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401

SIZE = 1 << 12


def said(work: dist.Work, use: Callable[[], object], waits: bool) -> str:
    """What a use of tensors that are under way raises, with and without a wait before it; "" when it is right."""
    try:
        if waits:
            work.wait()
        use()
        torch.npu.synchronize()
    except RuntimeError as error:
        return str(error)
    finally:
        work.wait()
        torch.npu.synchronize()
    return ""


def reduced(waits: bool) -> str:
    """The result of an asynchronous sum is read."""
    x = torch.ones(SIZE, device="npu")
    torch.npu.synchronize()

    def double() -> None:
        doubled = x.mul(2)
        torch.npu.synchronize()
        assert doubled.sum().item() == 2 * SIZE * dist.get_world_size()

    return said(dist.all_reduce(x, async_op=True), double, waits)


def overwritten(waits: bool) -> str:
    """The input of an asynchronous gather is overwritten."""
    x = torch.ones(SIZE, device="npu")
    parts = torch.empty(dist.get_world_size() * SIZE, device="npu")
    torch.npu.synchronize()
    return said(dist.all_gather_into_tensor(parts, x, async_op=True), x.zero_, waits)


def trained() -> list[float]:
    """Losses of a model under DistributedDataParallel, its batches prefetched through pinned memory."""
    torch.manual_seed(dist.get_rank())
    side, current = torch.npu.Stream(), torch.npu.current_stream()
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).npu()
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.001)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        source = torch.randn(32, 16).pin_memory()
        with torch.npu.stream(side):
            batch = source.npu(non_blocking=True)
        current.wait_stream(side)
        batch.record_stream(current)
        loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(folder: Path) -> None:
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("hccl")
    found = {
        "trained": trained(),
        "reduced": [reduced(True), reduced(False)],
        "overwritten": [overwritten(True), overwritten(False)],
    }
    (folder / f"rank{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
