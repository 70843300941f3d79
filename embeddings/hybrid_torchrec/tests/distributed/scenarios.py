"""What processes do beside plain training; each scenario returns what its test looks at."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import torch
import torch.distributed as dist
from hybrid_torchrec import LFU, LRU, AdmitAfter, OptimizerSpec
from hybrid_torchrec.modules import hash_tables
from sharded_data import make_batch
from sharded_model import hash_model
from sharded_program import Case, collect, shard, specs
from torch import Tensor, nn
from torch.distributed._shard.sharded_tensor import ShardedTensor

Record = dict[str, object]
CPU = torch.device("cpu")
MIXED = Case("bags", "adam", "mixed", 0)


def steps(model: nn.Module, first: int, end: int, rank: int, world: int, device: torch.device) -> list[Tensor]:
    predictions = []
    for step in range(first, end):
        batch = make_batch(step, rank, world, MIXED.rows, every_row=True, static=False)
        loss, prediction = model(batch.to(device))
        if model.training:
            loss.backward()
        predictions.append(prediction.detach())
    return predictions


def sharded_model(case: Case, device: torch.device, world: int, **fields: object) -> nn.Module:
    return shard(hash_model(case.module, specs(case.optimizer), torch.device("meta"), **fields), case, device, world)


def whole(state: dict[str, object], world: int) -> dict[str, Tensor]:
    """ShardedTensors gathered on every rank."""
    result = {}
    for key, value in state.items():
        if isinstance(value, ShardedTensor):
            shards: list = [None] * world
            dist.all_gather_object(shards, [shard.tensor.cpu() for shard in value.local_shards()])
            tensors = [tensor for part in shards for tensor in part]
            assert sum(tensor.size(0) for tensor in tensors) == value.size(0)
            value = torch.cat(tensors)
        result[key] = value.detach().cpu()
    return result


def state(rank: int, world: int, device: torch.device) -> Record:
    """Goes on from a state_dict: in the same plan, in another one, and from an unsharded model's."""
    model = sharded_model(MIXED, device, world)
    steps(model, 0, 5, rank, world, device)
    saved = copy.deepcopy(model.state_dict())
    record: Record = {"state": whole(saved, world)}
    record["expected"] = collect(model, steps(model, 5, 8, rank, world, device), world)

    again = sharded_model(MIXED, device, world)
    steps(again, 20, 22, rank, world, device)  # rows that must not stay
    again.load_state_dict(copy.copy(saved))  # torchrec renames the keys of what it is given
    record["again"] = collect(again, steps(again, 5, 8, rank, world, device), world)

    rows = Case("bags", "adam", "rows", 0)
    source = sharded_model(rows, device, world)
    steps(source, 0, 5, rank, world, device)
    from_rows = copy.deepcopy(source.state_dict())
    tables = sharded_model(Case("bags", "adam", "tables", 0), device, world)
    tables.load_state_dict(copy.copy(from_rows))
    record["other_plan"] = collect(tables, steps(tables, 5, 8, rank, world, device), world)

    # Whole tensors: what an unsharded model has; each rank keeps what it owns.
    alone = hash_model("bags", specs("adam"), CPU)
    alone.load_state_dict(whole(from_rows, world))
    record["alone"] = dict(alone.state_dict())
    from_whole = sharded_model(MIXED, device, world)
    from_whole.load_state_dict({key: value.to(device) for key, value in alone.state_dict().items()})
    record["from_whole"] = collect(from_whole, steps(from_whole, 5, 8, rank, world, device), world)
    # A model that has trained before it is sharded keeps its rows.
    taken = shard(alone, MIXED, device, world)
    record["taken"] = collect(taken, steps(taken, 5, 8, rank, world, device), world)
    return record


def schedule(rank: int, world: int, device: torch.device) -> Record:
    """Rates of single tables, by their groups and by a scheduler."""
    model = sharded_model(Case("bags", "sgd", "mixed", 0), device, world)
    groups = model.fused_optimizer.param_groups
    names = [group["name"] for group in groups]
    rates = [group["lr"] for group in groups]
    scheduler = torch.optim.lr_scheduler.LambdaLR(model.fused_optimizer, lambda step: 0.5**step)
    steps(model, 0, 1, rank, world, device)
    model.fused_optimizer.step()
    scheduler.step()
    halved = [group["lr"] for group in groups]
    before = collect(model, [torch.zeros(1)], world)
    groups[0]["lr"] = 0.0
    steps(model, 1, 2, rank, world, device)
    after = collect(model, [torch.zeros(1)], world)
    used = [float(table.learning_rate) for parts in hash_tables(model.module).values() for table in parts]
    return {"names": names, "rates": rates, "halved": halved, "before": before, "after": after, "used": used}


def policies(rank: int, world: int, device: torch.device) -> Record:
    """Occurrences are counted as if all ids were in one process."""
    case = Case("bags", "sgd", "mixed", 0)
    model = sharded_model(case, device, world, admission=AdmitAfter(sightings=3))
    for step in range(6):
        batch = make_batch(step, rank, world, 40, every_row=False, static=False)
        model(batch.to(device))[0].backward()
    admitted = collect(model, [torch.zeros(1)], world)
    # Table-wise: one table for all ids, so the number of ranks must not change who goes.
    tables = Case("bags", "sgd", "tables", 0)
    model = sharded_model(tables, device, world, eviction=LFU(share=0.0), max_rows=32)
    for step in range(12):
        batch = make_batch(step, rank, world, 40, every_row=False, static=False)
        model(batch.to(device))[0].backward()
    kept = collect(model, [torch.zeros(1)], world)
    return {"admitted": admitted, "kept": kept}


def evaluation(rank: int, world: int, device: torch.device) -> Record:
    """Eval mode: nothing is inserted or updated, absent ids read the default row, on all ranks."""
    model = sharded_model(MIXED, device, world)
    trained = steps(model, 0, 3, rank, world, device)
    before = collect(model, trained, world)
    model.eval()
    empty = make_batch(3, rank, world, MIXED.rows, every_row=True, static=False)
    absent = copy.deepcopy(empty)
    absent.features.values().fill_(12345)
    model(absent.to(device))[0].backward()  # a gradient that must go nowhere
    again = steps(model, 3, 4, rank, world, device)
    after = collect(model, again, world)
    out = model.module.sparse(absent.features.to(device)).to_dict()["f0"]
    table = hash_tables(model.module)["sparse.embedding_bags.t0"]
    lengths = absent.features["f0"].lengths()
    default = table[0].lookup(torch.zeros(1, dtype=torch.int64, device=device))
    return {
        "before": before,
        "after": after,
        "read": out.detach().cpu(),
        "default": lengths.unsqueeze(1) * default.cpu(),
    }


def sixteen_bits(rank: int, world: int, device: torch.device) -> Record:
    """Rows of 16 bits travel as they are stored; gradients do so in float32."""
    from torchrec.modules.embedding_configs import DataType

    record: Record = {}
    for name, kind in (("fp16", DataType.FP16), ("bf16", DataType.BF16)):
        model = sharded_model(Case("bags", "adagrad", "mixed", 0), device, world, data_type=kind)
        record[name] = collect(model, steps(model, 0, 10, rank, world, device), world)
        alone = hash_model("bags", specs("adagrad"), CPU, data_type=kind)
        record[f"{name}_type"] = str(alone.sparse.embedding_bags["t0"].whole.table.weights.dtype)
    return record


def no_values(rank: int, world: int, device: torch.device) -> Record:
    """A rank without a single id takes part in everything."""
    model = sharded_model(MIXED, device, world)
    predictions = []
    for step in range(4):
        batch = make_batch(step, rank, world, MIXED.rows, every_row=True, static=False)
        if step % world == rank:
            from torchrec import KeyedJaggedTensor

            lengths = torch.zeros_like(batch.features.lengths())
            batch.features = KeyedJaggedTensor(
                batch.features.keys(), torch.empty(0, dtype=torch.int64), lengths=lengths
            )
        loss, prediction = model(batch.to(device))
        loss.backward()
        predictions.append(prediction.detach())
    return {"rows": collect(model, predictions, world)}


def called_twice(rank: int, world: int, device: torch.device) -> Record:
    """Rows that a second forward pass evicts before the first one's backward: their gradients go nowhere."""
    model = sharded_model(
        Case("bags", "sgd", "tables", 0),
        device,
        world,
        eviction=LRU(share=0.0),
        max_rows=16,
        initializer=None,
        weight_init_min=0.25,
        weight_init_max=0.25,
    )
    first = make_batch(0, rank, world, 8, every_row=True, static=False).to(device)
    second = copy.deepcopy(first)
    loss, _ = model(first)
    # None of these was in the first batch; there is room for half of the sum.
    second.features.values().copy_(second.features.values() ^ 0x5555)
    model.module.sparse(second.features).values().sum().detach()
    third = copy.deepcopy(second)
    third.features.values().copy_(third.features.values() ^ 0x333300)
    model.module.sparse(third.features).values().sum().detach()
    loss.backward()
    tables = [table for parts in hash_tables(model.module).values() for table in parts]
    values = [torch.empty(0), *(table.lookup(torch.arange(1, 1 + len(table))).flatten() for table in tables)]
    every: list = [None] * world
    dist.all_gather_object(every, (torch.cat(values), sum(table.evictions for table in tables)))
    return {"values": torch.cat([value for value, _ in every]), "evicted": sum(count for _, count in every)}


def refused(rank: int, world: int, device: torch.device) -> Record:
    """Messages of what cannot be."""
    from hybrid_torchrec.distributed import HashEmbeddingBagCollectionSharder
    from torchrec.distributed import ShardingEnv
    from torchrec.distributed.sharding_plan import construct_module_sharding_plan, data_parallel

    model = hash_model("bags", specs("sgd"), torch.device("meta"))
    sharder = HashEmbeddingBagCollectionSharder()
    messages = {}
    plan = construct_module_sharding_plan(
        model.sparse, {name: data_parallel() for name in ("t0", "t1", "t2")}, sharder, world, world, device.type
    )
    try:
        sharder.shard(model.sparse, plan, ShardingEnv.from_process_group(dist.GroupMember.WORLD), device)
    except ValueError as error:
        messages["data_parallel"] = str(error)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        alone = hash_model("bags", [OptimizerSpec()] * 3, CPU)
        alone(make_batch(0, rank, world, 8, every_row=True, static=False))
    messages["alone"] = "; ".join(str(item.message) for item in caught)
    return messages


def sparse_nn(rank: int, world: int, device: torch.device) -> Record:
    """torchrec's own test model with static and hash tables, whose plan is left to the planner, in three pipelines."""
    from hybrid_torchrec.distributed import HybridTrainPipelineSparseDist, get_default_hybrid_sharders
    from sparse_nn import batches, make_model, train
    from torchrec.distributed import DistributedModelParallel
    from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
    from torchrec.distributed.planner.types import ParameterConstraints
    from torchrec.distributed.train_pipeline import TrainPipelineSparseDist

    record: Record = {}
    sharders = get_default_hybrid_sharders()
    # A static table that is replicated has no gradient in fbgemm's CPU kernel.
    constraints = {"w": ParameterConstraints(sharding_types=["table_wise"])}
    topology = Topology(world_size=world, compute_device=device.type, local_world_size=world)
    for name in ("plain", "torchrec", "hybrid"):
        model = make_model(torch.device("meta"))
        plan = EmbeddingShardingPlanner(topology=topology, constraints=constraints).collective_plan(
            model, sharders, dist.GroupMember.WORLD
        )
        model = DistributedModelParallel(model, device=device, plan=plan, sharders=sharders)
        if name == "plain":
            record["plan"] = {
                f"{path}.{table}": (type(model.module.get_submodule(path)).__name__, sharding.sharding_type)
                for path, tables in model.plan.plan.items()
                for table, sharding in tables.items()
            }
        pipeline = None
        if name == "torchrec":
            pipeline = TrainPipelineSparseDist
        elif name == "hybrid":
            pipeline = HybridTrainPipelineSparseDist
        predictions = train(model, [mine[rank].to(device) for mine in batches(world)], device, pipeline)
        every: list = [None] * world
        dist.all_gather_object(every, predictions.cpu())
        record[name] = torch.cat(every, dim=1)
    return record


SCENARIOS: dict[str, Callable[[int, int, torch.device], Record]] = {
    "state": state,
    "schedule": schedule,
    "policies": policies,
    "evaluation": evaluation,
    "sixteen_bits": sixteen_bits,
    "no_values": no_values,
    "called_twice": called_twice,
    "refused": refused,
    "sparse_nn": sparse_nn,
}
