"""What programs that nobody wrote for NPUs do with torchrec: PROGRAMS, each for one of two processes of a group.

The calls are those of upstream's examples and unit tests; no program names a device where upstream's does not. Each
returns everything that it computed, by name. cpu_runner.py starts them on the CPU, cuda_program.py on what "cuda"
means.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed._shard.sharding_spec import EnumerableShardingSpec, ShardMetadata
from torch.distributed.optim import _apply_optimizer_in_backward as apply_optimizer_in_backward
from torchrec import EmbeddingBagCollection, JaggedTensor, KeyedJaggedTensor, PoolingType
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed import train_pipeline as pipelines
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embedding_types import EmbeddingComputeKernel
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.fbgemm_qcomm_codec import CommType, QCommsConfig, get_qcomm_codecs_registry
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints
from torchrec.distributed.planner.planners import HeteroEmbeddingShardingPlanner
from torchrec.distributed.shard import shard, shard_modules
from torchrec.distributed.sharding_plan import (
    apply_to_all,
    column_wise,
    construct_module_sharding_plan,
    data_parallel,
    table_wise,
)
from torchrec.distributed.types import (
    EmbeddingModuleShardingPlan,
    ObjectPoolShardingPlan,
    ObjectPoolShardingType,
    ParameterSharding,
    ShardingEnv,
    ShardingPlan,
    ShardingType,
)
from torchrec.modules.feature_processor_ import PositionWeightedModuleCollection
from torchrec.modules.fp_embedding_modules import FeatureProcessedEmbeddingBagCollection
from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection
from torchrec.modules.keyed_jagged_tensor_pool import KeyedJaggedTensorPool
from torchrec.modules.mc_embedding_modules import ManagedCollisionEmbeddingBagCollection
from torchrec.modules.mc_modules import (
    DistanceLFU_EvictionPolicy,
    ManagedCollisionCollection,
    MCHManagedCollisionModule,
)
from torchrec.modules.tensor_pool import TensorPool
from torchrec.optim.keyed import CombinedOptimizer, KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad
from torchrec.optim.warmup import WarmupOptimizer, WarmupPolicy, WarmupStage
from upstream_models import (
    DIM,
    FEATURES,
    MANY_ROWS,
    META,
    RATE,
    STEPS,
    at,
    bag_configs,
    bags,
    batches,
    dlrm,
    kjt,
    sequences,
)
from upstream_training import dense_optimizer, flat, in_backward, planned, run, train


def train_dlrm() -> dict[str, object]:
    """examples/golden_training/train_dlrm.py: no plan, quantised communication, TrainPipelineSparseDist."""
    model = dlrm(bags(rows=MANY_ROWS))
    in_backward(model)
    registry = get_qcomm_codecs_registry(QCommsConfig(CommType.FP16, CommType.FP16), device=at())
    sharder = EmbeddingBagCollectionSharder(qcomm_codecs_registry=registry)
    sharded = DistributedModelParallel(module=model, device=at(), sharders=[sharder])
    optimizer = KeyedOptimizerWrapper(
        dict(sharded.named_parameters()), lambda parameters: torch.optim.Adagrad(parameters, lr=RATE)
    )
    pipeline = pipelines.TrainPipelineSparseDist(sharded, optimizer, at())
    return {"plan": str(sharded.plan), **run(pipeline, sharded)}


def unfinished() -> dict[str, object]:
    """train_dlrm.py as it ends: the pipeline has begun batches that nobody asks for."""
    model = dlrm(bags(rows=MANY_ROWS))
    in_backward(model)
    sharded = DistributedModelParallel(module=model, device=at())
    pipeline = pipelines.TrainPipelineSparseDist(sharded, dense_optimizer(sharded), at())
    iterator = batches(STEPS + 3)
    found: dict[str, object] = {}
    for step in range(STEPS):
        found.update(flat(pipeline.progress(iterator)[0], f"loss {step}"))
    return found


def train_dlrm_data_parallel() -> dict[str, object]:
    """examples/golden_training/train_dlrm_data_parallel.py: a planner without a topology, one replicated table."""
    model = dlrm(bags(rows=MANY_ROWS))
    constraints = {"t_f1": ParameterConstraints(compute_kernels=[EmbeddingComputeKernel.DENSE.value])}
    plan = EmbeddingShardingPlanner(constraints=constraints).collective_plan(model)
    in_backward(model)
    sharded = DistributedModelParallel(plan=plan, module=model, device=at(), sharders=[EmbeddingBagCollectionSharder()])
    sparse = KeyedOptimizerWrapper(
        dict(in_backward_optimizer_filter(sharded.module.model.sparse_arch.named_parameters())),
        lambda parameters: RowWiseAdagrad(parameters, lr=RATE),
    )
    dense = KeyedOptimizerWrapper(
        {name: p for name, p in sharded.named_parameters() if "sparse" not in name},
        lambda parameters: torch.optim.Adagrad(parameters, lr=RATE),
    )
    optimizer = CombinedOptimizer([("sparse", sparse), ("dense", dense), ("fused", sharded.fused_optimizer)])
    result = run(pipelines.TrainPipelineSparseDist(sharded, optimizer, at()), sharded)
    return {"plan": str(plan), **result, **flat(optimizer.state_dict(), "optimizer")}


def pipeline(make: Callable[[nn.Module, torch.optim.Optimizer], object]) -> Callable[[], dict[str, object]]:
    def program() -> dict[str, object]:
        model = dlrm()
        in_backward(model)
        sharded = planned(model)
        return {"plan": str(sharded.plan), **run(make(sharded, dense_optimizer(sharded)), sharded)}

    return program


def qcomm(forward: CommType, backward: CommType) -> Callable[[], dict[str, object]]:
    def program() -> dict[str, object]:
        config = QCommsConfig(forward, backward)
        assumed = get_qcomm_codecs_registry(config)  # without a device
        model = bags(dim=64)
        apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": RATE})
        sharder = EmbeddingBagCollectionSharder(qcomm_codecs_registry=get_qcomm_codecs_registry(config, device=at()))
        sharded = DistributedModelParallel(module=model, device=at(), sharders=[sharder])
        return {"assumed": repr(sorted(assumed or {})), **train(sharded, "bags")}

    return program


def composable() -> dict[str, object]:
    """composable/tests/test_fused_optim.py and test_embeddingbag.py: shard() of plans made without a device type."""
    found: dict[str, object] = {}
    generators = {"table": table_wise(rank=0), "column": column_wise(ranks=[0, 1]), "data": data_parallel()}
    for name, generator in generators.items():
        module = bags(at())
        apply_optimizer_in_backward(RowWiseAdagrad, module.parameters(), {"lr": 0.01})
        plan = construct_module_sharding_plan(module, apply_to_all(module, generator))
        found[f"{name} plan"] = str(plan)
        sharded = shard(module=module, plan=plan, device=at())
        found.update(train(sharded, name))
        found.update(flat(sharded.fused_optimizer.state_dict(), f"{name} optimizer"))
    return found


def shard_without_device() -> dict[str, object]:
    """shard() and shard_modules() that find the device themselves."""
    found = train(shard(bags(at()), table_wise(rank=1)), "shard")
    modules = shard_modules(nn.ModuleDict({"bags": bags(at())}), init_params=True)
    return {**found, **train(modules["bags"], "shard_modules")}


def plan_by_hand() -> dict[str, object]:
    """A plan of ParameterSharding with placements as text, as upstream's tests of sharded modules write them."""
    tables = {}
    for n, table in enumerate(bag_configs()):
        rank = n % 2
        where = f"rank:{rank}/cpu" if at().type == "cpu" else f"rank:{rank}/{at().type}:{rank}"
        shards = [ShardMetadata([0, 0], [table.num_embeddings, DIM], placement=where)]
        tables[table.name] = ParameterSharding(
            sharding_type=ShardingType.TABLE_WISE.value,
            compute_kernel=EmbeddingComputeKernel.FUSED.value,
            ranks=[rank],
            sharding_spec=EnumerableShardingSpec(shards),
        )
    plan = ShardingPlan({"": EmbeddingModuleShardingPlan(tables)})
    return train(DistributedModelParallel(bags(), device=at(), plan=plan), "by hand")


def warmup() -> dict[str, object]:
    """composable/tests/test_fused_optim.py, test_set_learning_rate."""
    module = bags()
    apply_optimizer_in_backward(RowWiseAdagrad, module.parameters(), {"lr": 0.01})
    tables = {"t_f0": table_wise(rank=0), "t_f1": table_wise(rank=1), "t_f2": column_wise(ranks=[0, 1])}
    sharded = shard(module, construct_module_sharding_plan(module, tables), device=at())
    found: dict[str, object] = {}
    stages = [WarmupStage(policy=WarmupPolicy.LINEAR, max_iters=10000, value=0.5, lr_scale=1.0)]
    for name, parameter in sharded.named_parameters():
        if not parameter.numel():  # of the other rank
            continue
        optimizer = WarmupOptimizer(parameter._in_backward_optimizers[0], stages, param_name="__warmup_state")
        optimizer.step()
        optimizer.step()
        found[name] = repr(optimizer.param_groups[0]["lr"])
    return found


def planners() -> dict[str, object]:
    """Plans of planners that were given no topology."""
    model = nn.ModuleDict({"bags": bags(), "sequences": sequences()})
    sharders = [EmbeddingBagCollectionSharder(), EmbeddingCollectionSharder()]
    world = dist.GroupMember.WORLD
    plan = EmbeddingShardingPlanner().collective_plan(model, sharders, world)
    hetero = HeteroEmbeddingShardingPlanner()
    groups = {
        name: (t.compute_device, [str(d.storage) for d in t.devices]) for name, t in hetero._topology_groups.items()
    }
    return {"plan": str(plan), "hetero": repr(groups)}


def checkpoints() -> dict[str, object]:
    """A checkpoint of model and optimizer, loaded into another model; and a state dict handed over."""
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else ""]
    dist.broadcast_object_list(folder)

    def trained(steps: int) -> tuple[nn.Module, torch.optim.Optimizer]:
        model = dlrm()
        in_backward(model)
        sharded = planned(model)
        optimizer = CombinedOptimizer([("dense", dense_optimizer(sharded)), ("fused", sharded.fused_optimizer)])
        run(pipelines.TrainPipelineSparseDist(sharded, optimizer, at()), sharded, steps)
        return sharded, optimizer

    model, optimizer = trained(3)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    checkpoint.save(state, checkpoint_id=folder[0])
    other, other_optimizer = trained(1)
    state = {"model": other.state_dict(), "optimizer": other_optimizer.state_dict()}
    checkpoint.load(state, checkpoint_id=folder[0])
    other.load_state_dict(state["model"])
    other_optimizer.load_state_dict(state["optimizer"])
    loaded = {**flat(other.state_dict(), "model"), **flat(other_optimizer.state_dict(), "optimizer")}
    third, _ = trained(1)
    third.load_state_dict(model.state_dict())
    return {**loaded, **flat(third.state_dict(), "handed over")}


def kinds_of_modules() -> dict[str, object]:
    """With the optimizer in the module, and with mean pooling."""
    found: dict[str, object] = {}
    fused = FusedEmbeddingBagCollection(
        tables=bag_configs(), optimizer_type=torch.optim.Adagrad, optimizer_kwargs={"lr": RATE}, device=META
    )
    plan = construct_module_sharding_plan(fused, apply_to_all(fused, column_wise(ranks=[0, 1])))
    found.update(train(DistributedModelParallel(fused, device=at(), plan=ShardingPlan({"": plan})), "fused"))
    mean = bags(pooling=PoolingType.MEAN)
    apply_optimizer_in_backward(torch.optim.SGD, mean.parameters(), {"lr": RATE})
    found.update(train(DistributedModelParallel(mean, device=at()), "mean"))
    return found


def feature_processed() -> dict[str, object]:
    weighted = EmbeddingBagCollection(tables=bag_configs(), is_weighted=True, device=at())
    positions = PositionWeightedModuleCollection(max_feature_lengths=dict.fromkeys(FEATURES, 4), device=at())
    processed = FeatureProcessedEmbeddingBagCollection(weighted, positions)
    return train(DistributedModelParallel(nn.Sequential(processed), device=at()), "processed")


def managed_collisions() -> dict[str, object]:
    tables = bag_configs()
    modules = {
        t.name: MCHManagedCollisionModule(
            zch_size=t.num_embeddings,
            device=at(),
            eviction_interval=2,
            input_hash_size=1000,
            eviction_policy=DistanceLFU_EvictionPolicy(),
        )
        for t in tables
    }
    collection = ManagedCollisionEmbeddingBagCollection(
        EmbeddingBagCollection(tables=tables, device=at()), ManagedCollisionCollection(modules, tables)
    )
    found: dict[str, object] = {}
    for step in range(3):
        out = collection(kjt(step, FEATURES, limit=1000))[0]
        found[str(step)] = out.values().detach().clone()
    return {**found, **flat(collection.state_dict())}


def pools() -> dict[str, object]:
    """Sharded pools of tensors and of jagged tensors on the CPU."""
    from torchrec.distributed.keyed_jagged_tensor_pool import KeyedJaggedTensorPoolSharder
    from torchrec.distributed.tensor_pool import TensorPoolSharder

    env = ShardingEnv.from_process_group(dist.GroupMember.WORLD)
    plan = ObjectPoolShardingPlan(ObjectPoolShardingType.ROW_WISE)
    rank = dist.get_rank()
    ids = torch.tensor([rank, rank + 4, rank + 8])
    tensors = TensorPoolSharder().shard(
        TensorPool(pool_size=12, dim=2, dtype=torch.float32), env=env, device=at(), plan=plan
    )
    tensors.update(ids=ids, values=torch.arange(6.0).view(3, 2) + 10 * rank)
    found = {"tensors": tensors.lookup(ids=torch.tensor([0, 1, 4, 9])).wait().clone()}
    jagged = KeyedJaggedTensorPoolSharder().shard(
        KeyedJaggedTensorPool(pool_size=12, feature_max_lengths={"a": 2, "b": 3}, values_dtype=torch.int64),
        env=env,
        device=at(),
        plan=plan,
    )
    values = {
        "a": JaggedTensor(values=torch.tensor([1, 2, 3]) + rank, lengths=torch.tensor([1, 0, 2])),
        "b": JaggedTensor(values=torch.tensor([4, 5, 6]) + rank, lengths=torch.tensor([0, 3, 0])),
    }
    jagged.update(ids=ids, values=KeyedJaggedTensor.from_jt_dict(values))
    read = jagged.lookup(torch.tensor([0, 5, 8])).wait()
    return {**found, "values": read.values().clone(), "lengths": read.lengths().clone()}


def quantised() -> dict[str, object]:
    """Inference: quantised tables on the CPU."""
    from torchrec.inference.modules import quantize_embeddings

    model = nn.Sequential(bags(at()))
    quant = quantize_embeddings(model, dtype=torch.qint8, inplace=False)
    return {"int8": quant[0](kjt(1, FEATURES)).values().clone(), **flat(quant.state_dict())}


PROGRAMS: dict[str, Callable[[], dict[str, object]]] = {
    "train_dlrm": train_dlrm,
    "train_dlrm_data_parallel": train_dlrm_data_parallel,
    "unfinished": unfinished,
    "TrainPipelineBase": pipeline(lambda m, o: pipelines.TrainPipelineBase(m, o, at())),
    "TrainPipelineSparseDist": pipeline(lambda m, o: pipelines.TrainPipelineSparseDist(m, o, at())),
    "execute_all_batches": pipeline(
        lambda m, o: pipelines.TrainPipelineSparseDist(m, o, at(), execute_all_batches=False)
    ),
    "PrefetchTrainPipelineSparseDist": pipeline(lambda m, o: pipelines.PrefetchTrainPipelineSparseDist(m, o, at())),
    "TrainPipelineSemiSync": pipeline(lambda m, o: pipelines.train_pipelines.TrainPipelineSemiSync(m, o, at())),
    "EvalPipelineSparseDist": pipeline(lambda m, o: pipelines.EvalPipelineSparseDist(m, o, at())),
    "qcomm_fp16": qcomm(CommType.FP16, CommType.FP16),
    "qcomm_bf16": qcomm(CommType.FP16, CommType.BF16),
    "qcomm_int8": qcomm(CommType.INT8, CommType.FP32),
    "composable": composable,
    "shard_without_device": shard_without_device,
    "plan_by_hand": plan_by_hand,
    "warmup": warmup,
    "planners": planners,
    "checkpoints": checkpoints,
    "kinds_of_modules": kinds_of_modules,
    "feature_processed": feature_processed,
    "managed_collisions": managed_collisions,
    "pools": pools,
    "quantised": quantised,
}
