"""The model over several processes: sharded tables by torchrec, the dense part by DDP or FSDP."""

from __future__ import annotations

from typing import Any

from torch import nn

from gr_model.config import Config, ConfigError
from gr_model.config.checks import FSDP_NEEDS
from gr_model.embedding import dynamic_tables, tables
from gr_model.runtime.world import World


class Parallel:
    """`module` is what a training step calls; `model` stays the task's own, for everything else."""

    def __init__(self, model: nn.Module, config: Config, world: World) -> None:
        self.model, self.world = model, world
        self.sharded: Any = None
        self.dynamic = config.embedding.dynamic
        if config.embedding.kind != "static":
            self.sharded = tables.shard(model, config.embedding, world, config.train.seed)
            if self.dynamic:
                dynamic_tables.start_empty(model)
        else:
            model.to(world.device)
        self.module = self._dense(config) if world.size > 1 else model

    def dense_parameters(self) -> dict[str, nn.Parameter]:
        """By name; those that the training's own optimizer updates, which are not in sharded tables."""
        skipped = tuple(f"{name}." for name, module in self.model.named_modules() if hasattr(module, "collection"))
        return {name: p for name, p in self.model.named_parameters() if not (skipped and name.startswith(skipped))}

    @property
    def fused(self) -> Any:
        """The optimizers inside the lookups of sharded tables, as one; None without such tables."""
        return self.sharded.fused_optimizer if self.sharded is not None else None

    def set_table_rate(self, rate: float) -> None:
        if self.fused is not None:
            for group in self.fused.param_groups:
                group["lr"] = rate
            self.fused.step()  # hands the rate to the lookups; their rows are updated in the backward

    def model_state(self) -> dict[str, Any]:
        """Of dynamic tables without their rows, which are in `rows`."""
        if self.dynamic:
            return self._without_rows().state_dict()
        return self.sharded.state_dict() if self.sharded is not None else self.model.state_dict()

    def load_model_state(self, state: dict[str, Any]) -> None:
        if self.dynamic:
            self._without_rows().load_state_dict(state)
        elif self.sharded is not None:
            self.sharded.load_state_dict(state)
        else:
            self.model.load_state_dict(state)

    def drop_gathered(self) -> None:
        """After an evaluation FSDP still has the outermost weights whole: those of the average, not those to train."""
        for module in self.model.modules():
            if hasattr(module, "reshard"):
                module.reshard()

    def _without_rows(self) -> Any:
        from hybrid_torchrec.checkpoint.models import DenseState

        return DenseState(self.sharded)

    def table_state(self) -> dict[str, Any]:
        """What the optimizers inside the lookups keep; of dynamic tables it goes with the rows."""
        return {} if self.fused is None or self.dynamic else self.fused.state_dict()["state"]

    def rows(self) -> dict[str, Any]:
        """{"rows": the rows of dynamic tables, which torch.distributed.checkpoint loads into the tables themselves}"""
        return {"rows": dynamic_tables.saved(self.model, self.world)} if self.dynamic else {}

    def close(self) -> None:
        for table in self.model.modules():
            if isinstance(table, dynamic_tables.DynamicTable):
                table.close()

    def load_table_state(self, state: dict[str, Any], step: int) -> None:
        """Adam's bias correction counts the lookups' own steps, which their state does not hold."""
        if self.fused is None or self.dynamic:
            return
        whole = self.fused.state_dict()
        whole["state"] = state
        self.fused.load_state_dict(whole)
        self.fused.set_optimizer_step(step)

    def _dense(self, config: Config) -> nn.Module:
        if config.train.parallel == "fsdp":
            return self._pieces(config)
        from torch.nn.parallel import DistributedDataParallel

        dense = self.dense_parameters()
        ignored = [name for name, _ in self.model.named_parameters() if name not in dense]
        ignored += [name for name, _ in self.model.named_buffers() if name.startswith(tuple(ignored) or ("\0",))]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self.model, ignored)
        device = self.world.device
        return DistributedDataParallel(
            self.model,
            device_ids=None if device.type == "cpu" else [device],
            gradient_as_bucket_view=True,
            broadcast_buffers=False,
        )

    def _pieces(self, config: Config) -> nn.Module:
        if self.world.device.type == "cpu":
            raise ConfigError(FSDP_NEEDS)
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        mesh = init_device_mesh(self.world.device.type, (self.world.size,))
        with tables.left_out(self.model):
            for layer in getattr(getattr(self.model, "backbone", None), "layers", ()):  # DCN V2 has none
                fully_shard(layer, mesh=mesh)
            fully_shard(self.model, mesh=mesh)
        for method in ("queries", "item_chunks"):
            if hasattr(self.model, method):
                register_fsdp_forward_method(self.model, method)
        return self.model
