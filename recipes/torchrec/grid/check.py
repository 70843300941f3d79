"""One case: torchrec's own test of it, or, for other optimizers than SGD, the same comparison with that optimizer.

`ModelParallelTestShared` builds tables and hands them with a sharder to one function a rank. Here the ranks are forked
processes with backend hccl on NPUs, or gloo on the CPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec.distributed.fbgemm_qcomm_codec import CommType, QCommsConfig
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
from torchrec.distributed.test_utils import test_sharding
from torchrec.distributed.test_utils.multi_process import MultiProcessContext
from torchrec.distributed.test_utils.test_model import ModelInput
from torchrec.distributed.test_utils.test_model_parallel import ModelParallelTestShared
from torchrec.distributed.types import ShardingEnv
from torchrec.modules.embedding_configs import PoolingType
from torchrec.optim.keyed import CombinedOptimizer, KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad
from torchrec.types import DataType

from .cases import Case
from .ranks import Failed, run

RATE = 0.1
EPS = 1e-8
STEPS = 3
SECONDS = 60.0
IN_BACKWARD = {"embedding_bags": (torch.optim.SGD, {"lr": 0.01}), "embeddings": (torch.optim.SGD, {"lr": 0.2})}
QUANTISED = QCommsConfig(forward_precision=CommType.FP16, backward_precision=CommType.BF16)
FUSED = {  # with an epsilon that fbgemm and PyTorch share
    "adagrad": {"optimizer": EmbOptimType.EXACT_ADAGRAD, "eps": EPS},
    "rowwise_adagrad": {"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD, "eps": EPS},
    "adam": {"optimizer": EmbOptimType.ADAM, "eps": EPS},
}
UNSHARDED: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=RATE, eps=EPS),
    "rowwise_adagrad": lambda parameters: RowWiseAdagrad(parameters, lr=RATE, eps=EPS),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=RATE, eps=EPS),
}


class _Shared(ModelParallelTestShared):
    """torchrec's test class with ranks that are forked by us; `outcome` says what they did."""

    def __init__(self, kind: str, log: Path) -> None:
        super().__init__("_test_sharding")
        self.kind, self.log = kind, log
        self.num_features, self.num_weighted_features, self.num_shared_features = 4, 2, 2
        self.outcome: list[Any] | Failed = []
        self.optimizer = "sgd"

    def _run_multi_process_test(self, *, callable: Callable[..., None], world_size: int = 2, **kwargs: Any) -> None:
        optimizer = self.optimizer

        def on_rank() -> None:
            rank = int(os.environ["RANK"])
            if optimizer in UNSHARDED:
                compare_training(rank, world_size, optimizer, **kwargs)
            else:
                callable(rank=rank, world_size=world_size, **kwargs)

        self.outcome = run(on_rank, kind=self.kind, world=world_size, log=self.log, seconds=SECONDS)


def check(case: Case, kind: str, log: Path) -> Failed | None:
    """Runs the case on `npu` with hccl, or on `cpu` with gloo."""
    shared = _Shared(kind, log)
    shared.optimizer = case.optimizer
    quantised = QUANTISED if case.option == "quantised_collectives" else None
    sharder = test_sharding.create_test_sharder(
        test_sharding.SharderType.EMBEDDING_BAG_COLLECTION.value,
        case.sharding,
        case.kernel,
        # by chance, shards would not round as the whole table does
        fused_params=dict(FUSED.get(case.optimizer, {}))
        | ({"stochastic_rounding": False} if case.option == "float16_tables" else {}),
        qcomms_config=quantised,
        device=torch.device(kind),
    )
    by_feature = case.option.endswith("batch_by_feature")
    shared._test_sharding(
        sharders=[sharder],
        backend="hccl" if kind == "npu" else "gloo",
        world_size=case.world,
        local_size=case.local_world,
        constraints=_constraints(case),
        qcomms_config=quantised,
        apply_optimizer_in_backward_config=IN_BACKWARD if case.optimizer == "sgd_in_backward" else None,
        variable_batch_size=case.option == "batch_by_rank",
        variable_batch_per_feature=by_feature,
        has_weighted_tables=not by_feature and case.option != "float16_tables",
        global_constant_batch=case.option == "constant_batch_by_feature",
        pooling=PoolingType.MEAN if case.option == "mean" else PoolingType.SUM,
        data_type=DataType.FP16 if case.option == "float16_tables" else DataType.FP32,
    )
    return shared.outcome if isinstance(shared.outcome, Failed) else None


def _constraints(case: Case) -> dict[str, ParameterConstraints] | None:
    """As torchrec's tests have them: small enough that columns are split."""
    if case.sharding in ("column_wise", "table_column_wise"):
        return {f"table_{n}": ParameterConstraints(min_partition=4) for n in range(6)}
    if case.sharding != "grid_shard":
        return None
    partitions = {f"table_{n}": size for n, size in enumerate((8, 12, 16, 20, 8, 12))}
    partitions.update(weighted_table_0=8, weighted_table_1=12)
    return {
        name: ParameterConstraints(min_partition=size, sharding_types=[case.sharding])
        for name, size in partitions.items()
    }


def compare_training(
    rank: int,
    world_size: int,
    optimizer: str,
    *,
    model_class: Any,
    tables: Any,
    weighted_tables: Any,
    embedding_groups: Any,
    sharders: Any,
    backend: str,
    constraints: Any,
    local_size: int,
    **_: Any,
) -> None:
    """`sharding_single_rank_test` with `optimizer` on the embeddings and SGD on the rest, STEPS steps."""
    with MultiProcessContext(rank, world_size, backend, local_size) as context:
        unsharded, inputs = test_sharding.gen_model_and_input(
            model_class=model_class,
            tables=tables,
            weighted_tables=weighted_tables,
            embedding_groups=embedding_groups,
            world_size=world_size,
            generate=ModelInput.generate,
            num_float_features=16,
        )
        unsharded = unsharded.to(context.device)
        whole_batch, batch = inputs[0][0].to(context.device), inputs[0][1][rank].to(context.device)
        sharded = model_class(
            tables=tables,
            weighted_tables=weighted_tables,
            embedding_groups=embedding_groups,
            dense_device=context.device,
            sparse_device=torch.device("meta"),
            num_float_features=16,
        )
        topology = Topology(
            world_size=world_size, compute_device=context.device.type, local_world_size=context.local_size
        )
        plan = EmbeddingShardingPlanner(topology=topology, constraints=constraints).collective_plan(
            sharded, sharders, context.pg
        )
        place(plan, context.device.type)
        assert context.pg is not None
        sharded = DistributedModelParallel(
            sharded, env=ShardingEnv.from_process_group(context.pg), plan=plan, sharders=sharders, device=context.device
        )
        test_sharding.copy_state_dict(sharded.state_dict(), unsharded.state_dict())
        ours = CombinedOptimizer([sharded.fused_optimizer, *_optimizers(sharded, optimizer)])
        reference = CombinedOptimizer(_optimizers(unsharded, optimizer))
        for _step in range(STEPS):
            prediction = test_sharding.gen_full_pred_after_one_step(sharded, ours, batch)
            parts = [torch.empty_like(prediction) for _ in range(world_size)]
            dist.all_gather(parts, prediction, group=context.pg)
            expected = test_sharding.gen_full_pred_after_one_step(unsharded, reference, whole_batch)
            torch.testing.assert_close(torch.cat(parts), expected)


def place(plan: Any, device: str) -> None:
    """Nodes are simulated: rank r is on device r of the one host that there is, whatever node the planner gave it."""
    for module in plan.plan.values():
        for parameter in module.values():
            for shard in parameter.sharding_spec.shards if parameter.sharding_spec is not None else ():
                if device != "cpu":
                    where = f"rank:{shard.placement.rank()}/{device}:{shard.placement.rank()}"
                    shard.placement = torch.distributed._remote_device(where)


def _optimizers(model: nn.Module, optimizer: str) -> list[KeyedOptimizerWrapper]:
    """Tables that are elsewhere have an empty parameter here."""
    named = in_backward_optimizer_filter(model.named_parameters())
    parameters = {name: parameter for name, parameter in named if parameter.numel()}
    sparse = {name: parameter for name, parameter in parameters.items() if "embedding_bags" in name}
    dense = {name: parameter for name, parameter in parameters.items() if name not in sparse}
    wrappers = [KeyedOptimizerWrapper(dense, lambda group: torch.optim.SGD(group, lr=RATE))]
    return [*wrappers, KeyedOptimizerWrapper(sparse, UNSHARDED[optimizer])] if sparse else wrappers
