"""state_dict of a sharded table: ShardedTensors whose shards are the rows of each rank, in the order of ranks."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed._shard.sharded_tensor import Shard, ShardedTensor, ShardedTensorMetadata
from torch.distributed._shard.sharded_tensor.metadata import TensorProperties
from torch.distributed._shard.sharding_spec import ShardMetadata
from torchrec.distributed.comm import get_local_size

from hybrid_torchrec.distributed.exchange import AllToAll
from hybrid_torchrec.distributed.placement import ColumnShard
from hybrid_torchrec.table import RowBatch


def row_counts(group: dist.ProcessGroup, rows: int, device: torch.device) -> list[int]:
    """Of each rank. Collective."""
    counts = torch.zeros(group.size(), dtype=torch.int64, device=device)
    own = torch.tensor([rows], device=device)
    dist.all_gather_into_tensor(counts, own, group=group)
    result: list[int] = counts.tolist()
    return result


def sharded(tensor: Tensor, counts: list[int], group: dist.ProcessGroup) -> ShardedTensor:
    """tensor: this rank's rows (counts[rank], ...). Not collective."""
    rank, rest = group.rank(), list(tensor.shape[1:])
    starts = [sum(counts[:other]) for other in range(len(counts))]
    shards = [
        ShardMetadata(
            shard_offsets=[starts[other]] + [0] * len(rest),
            shard_sizes=[counts[other], *rest],
            placement=_place(other, tensor.device, group.size()),
        )
        for other in range(len(counts))
        if counts[other] or (sum(counts) == 0 and other == 0)
    ]
    local = [Shard(tensor, shard) for shard in shards if shard.placement.rank() == rank]
    metadata = ShardedTensorMetadata(
        shards_metadata=shards,
        size=torch.Size([sum(counts), *rest]),
        tensor_properties=TensorProperties(dtype=tensor.dtype, layout=torch.strided, requires_grad=False),
    )
    whole: ShardedTensor = ShardedTensor._init_from_local_shards_and_global_metadata(
        local, metadata, process_group=group
    )
    return whole


def _place(rank: int, device: torch.device, world: int) -> str:
    return f"rank:{rank}/{device.type}" + ("" if device.type == "cpu" else f":{rank % get_local_size(world)}")


def own_rows(tensor: Tensor | ShardedTensor) -> Tensor:
    """What a rank has of a loaded tensor."""
    if not isinstance(tensor, ShardedTensor):
        return tensor
    shards = tensor.local_shards()
    if shards:
        return torch.cat([shard.tensor for shard in shards])
    whole = tensor.metadata()
    return torch.empty(0, *whole.size[1:], dtype=whole.tensor_properties.dtype, device=_device_of(tensor))


def _device_of(tensor: ShardedTensor) -> torch.device:
    kind = tensor.metadata().shards_metadata[0].placement.device().type
    return torch.device("cpu") if kind == "cpu" else torch.device(kind, torch.get_device_module(kind).current_device())


def send_to_owners(rows: RowBatch, shard: ColumnShard, group: dist.ProcessGroup, device: torch.device) -> RowBatch:
    """Rows of all ranks, each to the rank that owns its id. Collective."""
    rows = rows.to(device)
    owner = shard.owner(rows.ids)
    order = torch.argsort(owner, stable=True)
    sent = torch.bincount(owner, minlength=group.size())
    ones = [1] * group.size()
    received = AllToAll(group, sent, ones, ones).wait()
    out_splits, in_splits = received.tolist(), sent.tolist()
    moved: Mapping[str, Tensor] = {
        name: AllToAll(group, tensor[order], in_splits, out_splits).wait()
        for name, tensor in rows.named_tensors().items()
    }
    return RowBatch.from_named_tensors(moved)
