"""The cases: sharding types x compute kernels x optimizers on 2 and 4 ranks, and every option of torchrec's test."""

from __future__ import annotations

from dataclasses import dataclass

SHARDINGS = (
    "data_parallel",
    "table_wise",
    "row_wise",
    "column_wise",
    "table_row_wise",
    "table_column_wise",
    "grid_shard",
)
KERNELS = ("dense", "fused", "fused_uvm", "fused_uvm_caching", "key_value")
OPTIMIZERS = ("sgd", "sgd_in_backward", "adagrad", "rowwise_adagrad", "adam")
OPTIONS = (
    "mean",
    "float16_tables",
    "quantised_collectives",
    "batch_by_rank",
    "batch_by_feature",
    "constant_batch_by_feature",
)
WORLDS = (2, 4)
PLAIN = "plain"


@dataclass(frozen=True)
class Case:
    """`option`: one of OPTIONS, or PLAIN. On 4 ranks, shardings that know nodes see two nodes of two NPUs."""

    sharding: str
    kernel: str
    optimizer: str
    world: int
    option: str = PLAIN

    @property
    def name(self) -> str:
        return f"{self.sharding}-{self.kernel}-{self.optimizer}-{self.option}-{self.world}"

    @classmethod
    def of(cls, name: str) -> Case:
        sharding, kernel, optimizer, option, world = name.split("-")
        return cls(sharding, kernel, optimizer, int(world), option)

    @property
    def local_world(self) -> int:
        return 2 if self.sharding in ("table_row_wise", "table_column_wise", "grid_shard") else self.world


def full() -> list[Case]:
    cases = [
        Case(sharding, kernel, optimizer, world)
        for world in WORLDS
        for kernel in KERNELS
        for optimizer in OPTIMIZERS
        for sharding in SHARDINGS
        if sensible(sharding, kernel, optimizer)
    ]
    for world in WORLDS:
        for option in OPTIONS:
            for sharding in SHARDINGS:
                cases.append(Case(sharding, "dense" if sharding == "data_parallel" else "fused", "sgd", world, option))
    return cases


def sensible(sharding: str, kernel: str, optimizer: str) -> bool:
    """Data-parallel tables are parameters with gradients: `dense` is their kernel by definition, and torchrec has no
    optimizer in their backward."""
    return sharding != "data_parallel" or (kernel == "dense" and optimizer != "sgd_in_backward")


def representative() -> list[Case]:
    """A dozen that meet each sharding type, kernel that NPUs have, optimizer and option."""
    names = (
        "data_parallel-dense-adagrad-plain-2",
        "table_wise-fused-sgd-mean-2",
        "row_wise-fused-rowwise_adagrad-plain-2",
        "column_wise-fused-adam-plain-2",
        "table_column_wise-fused-sgd-float16_tables-2",
        "row_wise-fused-sgd-quantised_collectives-2",
        "table_wise-dense-rowwise_adagrad-plain-2",
        "row_wise-fused-sgd-batch_by_feature-2",
        "column_wise-fused-sgd_in_backward-plain-2",
        "table_row_wise-fused-sgd-plain-4",
        "grid_shard-fused-sgd-plain-4",
        "table_wise-fused-sgd-batch_by_rank-2",
    )
    return [Case.of(name) for name in names]
