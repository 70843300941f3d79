"""Run by torchrun: collectives of the real torch_npu on the twin, each check against values by hand or gloo.

`python -m torch.distributed.run ... torch_checks.py OUT` writes OUT/rank<r>.json: {check: "ok" or the reason}.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401  (registers the backend `hccl`)
from torch.nn.parallel import DistributedDataParallel

Check = Callable[[], None]
CHECKS: dict[str, Check] = {}
GLOO: dist.ProcessGroup | None = None
OPERATIONS = {
    "sum": dist.ReduceOp.SUM,
    "prod": dist.ReduceOp.PRODUCT,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
}


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


def device() -> torch.device:
    return torch.device("npu", int(os.environ["LOCAL_RANK"]) % torch.npu.device_count())


def rank() -> int:
    return dist.get_rank()


def size() -> int:
    return dist.get_world_size()


def part(owner: int, *shape: int) -> torch.Tensor:
    """Integers in -3..3, so that every sum is exact in every dtype; differs by rank."""
    generator = torch.Generator().manual_seed(1000 + owner)
    return torch.randint(-3, 4, shape, generator=generator).float()


def equal(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0)


def _reduced_by_gloo(values: torch.Tensor, operation: str) -> torch.Tensor:
    result = values.clone()
    dist.all_reduce(result, OPERATIONS[operation], group=GLOO)
    return result


def _all_reduce(dtype: torch.dtype, operation: str) -> Check:
    def run() -> None:
        values = part(rank(), 1003).to(dtype)
        found = values.to(device())
        dist.all_reduce(found, OPERATIONS[operation])
        equal(found, _reduced_by_gloo(values, operation))

    return run


for _dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8):
    for _operation in OPERATIONS:
        if (_dtype, _operation) == (torch.bfloat16, "prod"):  # Atlas A2 has none, by HCCL's documentation
            continue
        CHECKS[f"all_reduce_{_operation}_{str(_dtype).removeprefix('torch.')}"] = _all_reduce(_dtype, _operation)


@check
def all_reduce_avg() -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        found = torch.full((5,), float(rank() + 1), dtype=dtype, device=device())
        dist.all_reduce(found, dist.ReduceOp.AVG)
        equal(found, torch.full((5,), (size() + 1) / 2, dtype=dtype))


@check
def all_reduce_bool() -> None:
    values = torch.tensor([rank() == 0, True, False, rank() > 0])
    for operation, expected in (("max", [True, True, False, True]), ("min", [False, True, False, False])):
        found = values.to(device())
        dist.all_reduce(found, OPERATIONS[operation])
        equal(found, torch.tensor(expected))
    found = values.to(device())
    dist.all_reduce(found)
    equal(found, torch.tensor([True, True, False, True]))


@check
def all_reduce_rounds_once_in_rank_order() -> None:
    """2048 + 1 + 1 is 2050 in fp16 when float is accumulated, 2048 when each sum is rounded."""
    one = torch.full((3,), 2048.0 if rank() == 0 else 2.0 / (size() - 1), dtype=torch.float16, device=device())
    dist.all_reduce(one)
    equal(one, torch.full((3,), 2050.0, dtype=torch.float16))


@check
def all_reduce_large_and_strided_by_async() -> None:
    values = part(rank(), 3000, 1001)
    found = values.to(device())
    other = part(rank(), 7).to(device())
    works = [dist.all_reduce(found, async_op=True), dist.all_reduce(other, async_op=True)]
    for work in works:
        work.wait()
    equal(found, sum(part(r, 3000, 1001) for r in range(size())))
    equal(other, sum(part(r, 7) for r in range(size())))


@check
def all_gather_equal() -> None:
    outputs = [torch.empty(2, 3, device=device()) for _ in range(size())]
    dist.all_gather(outputs, part(rank(), 2, 3).to(device()))
    for r in range(size()):
        equal(outputs[r], part(r, 2, 3))
    flat = torch.empty(2 * size(), 3, device=device())
    dist.all_gather_into_tensor(flat, part(rank(), 2, 3).to(device()))
    equal(flat, torch.cat([part(r, 2, 3) for r in range(size())]))


@check
def all_gather_unequal() -> None:
    outputs = [torch.empty(3 * r + 1, device=device()) for r in range(size())]
    dist.all_gather(outputs, part(rank(), 3 * rank() + 1).to(device()))
    for r in range(size()):
        equal(outputs[r], part(r, 3 * r + 1))


@check
def all_to_all_equal() -> None:
    found = torch.empty(2 * size(), device=device())
    dist.all_to_all_single(found, part(rank(), 2 * size()).to(device()))
    equal(found, torch.cat([part(r, 2 * size())[2 * rank() : 2 * rank() + 2] for r in range(size())]))


@check
def all_to_all_unequal() -> None:
    """Rank r gives rank p r + 2p rows, so that rank 0 gives itself none."""
    splits = [[r + 2 * p for p in range(size())] for r in range(size())]
    sent, received = splits[rank()], [splits[r][rank()] for r in range(size())]
    found = torch.empty(sum(received), 2, device=device())
    dist.all_to_all_single(found, part(rank(), sum(sent), 2).to(device()), received, sent)
    pieces = [part(r, sum(splits[r]), 2).split(splits[r])[rank()] for r in range(size())]
    equal(found, torch.cat(pieces))


@check
def all_to_all_list() -> None:
    outputs = [torch.empty(r + rank() + 1, device=device()) for r in range(size())]
    inputs = [part(10 * rank() + p, rank() + p + 1).to(device()) for p in range(size())]
    dist.all_to_all(outputs, inputs)
    for r in range(size()):
        equal(outputs[r], part(10 * r + rank(), r + rank() + 1))


@check
def broadcast() -> None:
    for root in range(size()):
        found = part(rank(), 6).to(device())
        dist.broadcast(found, root)
        equal(found, part(root, 6))


@check
def reduce() -> None:
    root = size() - 1
    found = part(rank(), 6).to(device())
    dist.reduce(found, root)
    if rank() == root:
        equal(found, sum(part(r, 6) for r in range(size())))


@check
def scatter() -> None:
    root = size() - 1
    inputs = [part(50 + r, 4).to(device()) for r in range(size())] if rank() == root else None
    found = torch.empty(4, device=device())
    dist.scatter(found, inputs, root)
    equal(found, part(50 + rank(), 4))


@check
def reduce_scatter_equal() -> None:
    found = torch.empty(4, device=device())
    dist.reduce_scatter_tensor(found, part(rank(), 4 * size()).to(device()))
    total = sum(part(r, 4 * size()) for r in range(size()))
    equal(found, total[4 * rank() : 4 * rank() + 4])
    dist.reduce_scatter(found, list(part(rank(), 4 * size()).to(device()).split(4)), dist.ReduceOp.MAX)
    largest = torch.stack([part(r, 4 * size()) for r in range(size())]).amax(0)
    equal(found, largest[4 * rank() : 4 * rank() + 4])


@check
def reduce_scatter_unequal() -> None:
    lengths = [2 * r + 1 for r in range(size())]
    found = torch.empty(lengths[rank()], device=device())
    dist.reduce_scatter(found, list(part(rank(), sum(lengths)).to(device()).split(lengths)))
    total = sum(part(r, sum(lengths)) for r in range(size()))
    equal(found, total.split(lengths)[rank()])


@check
def send_and_receive() -> None:
    if rank() == 0:
        for peer in range(1, size()):
            dist.send(part(peer, 5).to(device()), peer)
    else:
        found = torch.empty(5, device=device())
        dist.recv(found, 0)
        equal(found, part(rank(), 5))


@check
def batch_send_and_receive() -> None:
    ahead, behind = (rank() + 1) % size(), (rank() - 1) % size()
    source = part(rank(), 1000).to(device())
    found = torch.empty(1000, device=device())
    operations = [dist.P2POp(dist.isend, source, ahead), dist.P2POp(dist.irecv, found, behind)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    equal(found, part(behind, 1000))


@check
def barrier() -> None:
    """Nobody passes before the last rank has arrived."""
    folder = Path(sys.argv[1])
    if rank() == size() - 1:
        torch.npu.synchronize()
        (folder / "last").touch()
    dist.barrier()
    torch.npu.synchronize()
    assert (folder / "last").exists()


@check
def objects() -> None:
    gathered: list[object] = [None] * size()
    dist.all_gather_object(gathered, {"rank": rank(), "name": "r" * (rank() + 1)})
    assert gathered == [{"rank": r, "name": "r" * (r + 1)} for r in range(size())], gathered
    sent = [("a", 1), None] if rank() == 0 else [None, None]
    dist.broadcast_object_list(sent, 0)
    assert sent == [("a", 1), None], sent


@check
def gather() -> None:
    root = size() - 1
    outputs = [torch.empty(3, device=device()) for _ in range(size())] if rank() == root else None
    dist.gather(part(rank(), 3).to(device()), outputs, root)
    for r, output in enumerate(outputs or []):
        equal(output, part(r, 3))


@check
def gathered_and_scattered_objects() -> None:
    gathered: list[object] | None = [None] * size() if rank() == 0 else None
    dist.gather_object({"rank": rank()}, gathered, 0)
    assert gathered is None or gathered == [{"rank": r} for r in range(size())], gathered
    received: list[object] = [None]
    dist.scatter_object_list(received, [f"for {r}" for r in range(size())] if rank() == 0 else None, 0)
    assert received == [f"for {rank()}"], received


@check
def isend_and_irecv() -> None:
    """All pairs at once; what lies on the way is not overtaken."""
    found = torch.empty(4, device=device())
    if rank() % 2 == 0 and rank() + 1 < size():
        works = [dist.isend(part(10 * rank() + i, 4).to(device()), rank() + 1) for i in range(2)]
        for work in works:
            assert work is not None
            work.wait()
    elif rank() % 2 == 1:
        for i in range(2):
            work = dist.irecv(found, rank() - 1)
            assert work is not None
            work.wait()
            equal(found, part(10 * (rank() - 1) + i, 4))


@check
def batches_with_several_peers() -> None:
    """Every rank exchanges different lengths with every other in one batch, sends after receives on odd ranks."""
    sent = {p: part(100 * rank() + p, 10 * rank() + p + 1).to(device()) for p in range(size()) if p != rank()}
    found = {p: torch.empty(10 * p + rank() + 1, device=device()) for p in sent}
    operations = [dist.P2POp(dist.isend, values, p) for p, values in sent.items()]
    operations += [dist.P2POp(dist.irecv, values, p) for p, values in found.items()]
    for work in dist.batch_isend_irecv(operations if rank() % 2 == 0 else operations[::-1]):
        work.wait()
    for p, values in found.items():
        equal(values, part(100 * p + rank(), 10 * p + rank() + 1))


@check
def collectives_in_a_group() -> None:
    """The last two ranks alone: ranks within the group differ from those of the world."""
    members = list(range(size()))[-2:]
    group = dist.new_group(members)
    if rank() not in members:
        return
    outputs = [torch.empty(2, device=device()) for _ in members]
    dist.all_gather(outputs, part(rank(), 2).to(device()), group=group)
    for r, output in zip(members, outputs, strict=True):
        equal(output, part(r, 2))
    found = part(rank(), 3).to(device())
    dist.broadcast(found, members[-1], group=group)
    equal(found, part(members[-1], 3))
    mixed = torch.empty(4, device=device())
    dist.all_to_all_single(mixed, part(rank(), 4).to(device()), group=group)
    me = members.index(rank())
    equal(mixed, torch.cat([part(r, 4)[2 * me : 2 * me + 2] for r in members]))
    half = torch.empty(2, device=device())
    dist.reduce_scatter_tensor(half, part(rank(), 4).to(device()), group=group)
    equal(half, sum(part(r, 4) for r in members)[2 * me : 2 * me + 2])
    objects: list[object] = [None] * len(members)
    dist.all_gather_object(objects, rank(), group=group)
    assert objects == members, objects
    dist.barrier(group=group)


@check
def functional_collectives() -> None:
    """What compiled code and DTensor call."""
    import torch.distributed._functional_collectives as functional

    world = dist.group.WORLD
    assert world is not None
    found = functional.all_reduce(part(rank(), 5).to(device()), "sum", world)
    equal(functional.wait_tensor(found), sum(part(r, 5) for r in range(size())))
    found = functional.all_gather_tensor(part(rank(), 2).to(device()), 0, world)
    equal(functional.wait_tensor(found), torch.cat([part(r, 2) for r in range(size())]))
    found = functional.reduce_scatter_tensor(part(rank(), size()).to(device()), "sum", 0, world)
    equal(functional.wait_tensor(found), sum(part(r, size()) for r in range(size()))[rank() : rank() + 1])


@check
def groups() -> None:
    """All pairs of neighbours and each rank alone; a rank takes part in its own groups only."""
    members = [[r] for r in range(size())] + [[r, r + 1] for r in range(size() - 1)]
    made = [(ranks, dist.new_group(ranks)) for ranks in members]
    for ranks, group in made:
        if rank() in ranks:
            found = part(rank(), 3).to(device())
            dist.all_reduce(found, group=group)
            equal(found, sum(part(r, 3) for r in ranks))


@check
def overlapping_streams() -> None:
    """Compute on the main stream while a collective runs; wait() orders them."""
    values = part(rank(), 500, 500).to(device())
    work = dist.all_reduce(values, async_op=True)
    other = torch.ones(500, 500, device=device())
    for _ in range(3):
        other = other + other
    work.wait()
    equal(values + other, sum(part(r, 500, 500) for r in range(size())) + 8)


def _train(model: torch.nn.Module, batches: list[torch.Tensor], where: torch.device) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        optimizer.zero_grad()
        model(batch.to(where)).square().mean().backward()
        optimizer.step()


@check
def data_parallel() -> None:
    """DDP over all ranks equals one process that sees the whole batch; parameters are the same bits on all ranks."""
    torch.manual_seed(5)
    alone = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    shared = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    shared.load_state_dict(alone.state_dict())
    shared = shared.to(device())
    if rank() > 0:  # DDP starts from rank 0's
        with torch.no_grad():
            shared[0].weight.zero_()
    batches = [torch.randn(4 * size(), 6) for _ in range(5)]
    _train(DistributedDataParallel(shared), [b[4 * rank() : 4 * rank() + 4] for b in batches], device())
    _train(alone, batches, torch.device("cpu"))
    for mine, expected in zip(shared.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(mine.detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-6)
        copies = [torch.empty_like(mine) for _ in range(size())]
        dist.all_gather(copies, mine.detach())
        for copy in copies:
            equal(copy, mine.detach().cpu())


def main() -> None:
    global GLOO
    torch.npu.set_device(device())
    dist.init_process_group("hccl")
    GLOO = dist.new_group(backend="gloo")
    found: dict[str, str] = {}
    out = Path(sys.argv[1]) / f"rank{rank()}.json"
    for name, run in CHECKS.items():
        try:
            run()
            found[name] = "ok"
        except Exception:
            found[name] = traceback.format_exc()
        out.write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
