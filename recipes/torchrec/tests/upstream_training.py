"""How upstream_programs.py trains a model, and what it keeps of it: every loss and the state that is left, by name."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.optim import _apply_optimizer_in_backward as apply_optimizer_in_backward
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed.model_parallel import get_default_sharders
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints
from torchrec.distributed.types import ShardingType
from torchrec.models.dlrm import DLRMTrain
from torchrec.optim.keyed import KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad
from upstream_models import DIM, FEATURES, RATE, STEPS, at, batches, kjt


def flat(value: object, name: str = "") -> dict[str, object]:
    """Every tensor in a (nested, sharded) state, by its path; of a sharded one each local shard and its placement."""
    if hasattr(value, "local_shards") and hasattr(value, "metadata"):
        found: dict[str, object] = {f"{name} metadata": str(value.metadata())}
        for n, part in enumerate(value.local_shards()):
            found[f"{name}[{n}]"] = part.tensor.detach().cpu().clone()
        return found
    if isinstance(value, Tensor):
        return {name: value.detach().cpu().clone()}
    if isinstance(value, dict):
        return {k: v for key, part in value.items() for k, v in flat(part, f"{name}.{key}").items()}
    return {name: repr(value)}


def in_place(module: nn.Module) -> None:
    """Nothing of the module is elsewhere than what is asked for on `at()`."""
    expected = torch.empty(0, device=at()).device.type
    for name, parameter in [*module.named_parameters(), *module.named_buffers()]:
        here = parameter.device.type in (expected, "meta") or not parameter.numel()  # empty: of the other rank
        assert here, f"{name} is on {parameter.device}"


def dense_optimizer(model: nn.Module) -> KeyedOptimizerWrapper:
    return KeyedOptimizerWrapper(
        dict(in_backward_optimizer_filter(model.named_parameters())),
        lambda parameters: torch.optim.Adagrad(parameters, lr=RATE),
    )


def planned(model: nn.Module) -> DistributedModelParallel:
    """One table whole, one replicated, one split by columns, as a planner without a topology places them."""
    types = {"t_f0": ShardingType.TABLE_WISE, "t_f1": ShardingType.DATA_PARALLEL, "t_f2": ShardingType.COLUMN_WISE}
    constraints = {
        name: ParameterConstraints(sharding_types=[kind.value], min_partition=DIM // 2) for name, kind in types.items()
    }
    plan = EmbeddingShardingPlanner(constraints=constraints).collective_plan(model, get_default_sharders())
    return DistributedModelParallel(module=model, device=at(), plan=plan)


def in_backward(model: DLRMTrain) -> None:
    apply_optimizer_in_backward(RowWiseAdagrad, model.model.sparse_arch.parameters(), {"lr": RATE})


def run(pipeline: object, model: nn.Module, steps: int = STEPS) -> dict[str, object]:
    """Drives a pipeline to the end of its data; returns every loss and the state that is left."""
    iterator = batches(steps)
    losses: dict[str, object] = {}
    while True:
        try:
            out = pipeline.progress(iterator)  # type: ignore[attr-defined]
        except StopIteration:
            break
        losses.update(flat(out[0], f"loss {len(losses)}"))
    in_place(model)
    return {**losses, **flat(model.state_dict())}


def train(sharded: nn.Module, name: str, steps: int = 2) -> dict[str, object]:
    """Trains on the sum of squares; returns outputs and state."""
    found: dict[str, object] = {}
    for step in range(steps):
        out = sharded(kjt(step, FEATURES))
        out = out.wait() if hasattr(out, "wait") else out
        values = out.values() if not isinstance(out, dict) else torch.cat([part.values() for part in out.values()])
        values.square().sum().backward()
        found[f"{name} {step}"] = values.detach().cpu().clone()
    in_place(sharded)
    return {**found, **flat(sharded.state_dict(), name)}
