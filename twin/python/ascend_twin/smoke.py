"""A small real use of the emulated NPU: tensors, backward, two streams, a collective of two processes.

Run in a process that has the libraries on its path: `python -m ascend_twin selftest`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ascend_twin.home import find_home
from ascend_twin.info import install, made_for, misfits

RANKS = 2


def devices() -> str:
    import torch

    count = torch.npu.device_count()
    assert count > 0, "no device is visible"
    return f"{count} devices that answer as {torch.npu.get_device_name(0)}"


def matmul() -> str:
    import torch

    left, right = torch.randn(33, 65), torch.randn(65, 17)
    found = (left.npu() @ right.npu()).cpu()
    torch.testing.assert_close(found.double(), left.double() @ right.double(), rtol=1e-5, atol=1e-5)
    return "equal to float64 on the CPU to 1e-5"


def backward() -> str:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.SiLU(), torch.nn.Linear(16, 1))
    twin = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.SiLU(), torch.nn.Linear(16, 1))
    twin.load_state_dict(model.state_dict())
    batch = torch.randn(32, 8)
    losses = []
    for network, where in ((model, "cpu"), (twin.npu(), "npu")):
        optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
        for _ in range(5):
            optimizer.zero_grad()
            loss = network(batch.to(where)).square().mean()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert abs(losses[0] - losses[1]) < 1e-5, losses
    return f"loss after 5 steps of Adam {losses[1]:.6f}, on the CPU {losses[0]:.6f}"


def streams() -> str:
    import torch

    side = torch.npu.Stream()
    values = torch.ones(256, 256, device="npu")
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        doubled = values * 2
    torch.npu.current_stream().wait_stream(side)
    assert doubled.sum().item() == 2 * 256 * 256
    return "a second stream, ordered by events"


def collective() -> str:
    import torch

    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank, (folder,), nprocs=RANKS)
    return f"all_reduce and all_gather of {RANKS} processes through hccl"


def _rank(rank: int, folder: str) -> None:
    import torch
    import torch.distributed as dist
    import torch_npu  # noqa: F401

    torch.npu.set_device(rank % torch.npu.device_count())
    store = Path(folder, "store").as_uri()
    dist.init_process_group("hccl", init_method=store, rank=rank, world_size=RANKS)
    values = torch.arange(4.0, device="npu") + rank
    dist.all_reduce(values)
    assert values.tolist() == [1.0, 3.0, 5.0, 7.0], values
    gathered = [torch.empty(2, device="npu") for _ in range(RANKS)]
    dist.all_gather(gathered, torch.full((2,), float(rank), device="npu"))
    assert [part.tolist() for part in gathered] == [[0.0, 0.0], [1.0, 1.0]], gathered
    dist.destroy_process_group()


CHECKS: tuple[Callable[[], str], ...] = (devices, matmul, backward, streams, collective)


def main() -> int:
    wanted = made_for(find_home(os.environ))
    if wrong := misfits(wanted):
        print("\n".join([f"ascend-twin: {'; '.join(wrong)}; type:", *install(wanted)]), file=sys.stderr)
        return 1
    import torch_npu  # noqa: F401

    print("emulated NPU: correctness, not speed", flush=True)
    failed = 0
    for check in CHECKS:
        try:
            print(f"ok    {check.__name__}: {check()}", flush=True)
        except Exception as error:  # the remaining checks still tell something
            failed += 1
            print(f"FAIL  {check.__name__}: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
