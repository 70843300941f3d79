"""Plans for NPUs, made in a process without torch_npu and without a device."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.usefixtures("patched")

GIB = 1024**3


@pytest.fixture(autouse=True)
def _npu_name() -> None:
    """torch reads the device type in a placement; torch_npu gives it its name, here we do."""
    try:
        torch.device("npu")
    except RuntimeError:
        torch.utils.rename_privateuse1_backend("npu")


def make_model(rows: list[int], dim: int = 64) -> torch.nn.Module:
    from torchrec import EmbeddingBagCollection, EmbeddingBagConfig

    tables = [
        EmbeddingBagConfig(name=f"t{n}", num_embeddings=r, embedding_dim=dim, feature_names=[f"f{n}"])
        for n, r in enumerate(rows)
    ]
    return torch.nn.ModuleDict({"sparse": EmbeddingBagCollection(tables=tables, device=torch.device("meta"))})


def plan_for(topology: object, model: torch.nn.Module) -> dict[str, object]:
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.planner import EmbeddingShardingPlanner

    planner = EmbeddingShardingPlanner(topology=topology)
    return planner.plan(model, [EmbeddingBagCollectionSharder()]).plan["sparse"]


def shards_of(plan: dict[str, object]) -> list[object]:
    return [s for p in plan.values() if p.sharding_spec is not None for s in p.sharding_spec.shards]


def test_plan_places_tables_on_npus() -> None:
    from torchrec.distributed.planner import Topology

    plan = plan_for(Topology(world_size=4, compute_device="npu", local_world_size=2), make_model([10**6] * 8))
    shards = shards_of(plan)
    assert {str(s.placement) for s in shards} == {f"rank:{r}/npu:{r % 2}" for r in range(4)}
    for parameter in plan.values():
        assert parameter.compute_kernel in ("fused", "dense")


def test_memory_is_hbm_and_too_much_is_refused() -> None:
    from torchrec.distributed.planner import Topology
    from torchrec.distributed.planner.types import PlannerError

    model = make_model([10**6] * 4)  # 4 x 256 MB
    small = Topology(world_size=2, compute_device="npu", hbm_cap=256 * 1024**2, ddr_cap=512 * GIB)
    with pytest.raises(PlannerError, match="(?i)storage|memory|hbm"):
        plan_for(small, model)
    assert plan_for(Topology(world_size=2, compute_device="npu", hbm_cap=4 * GIB, ddr_cap=1), model)


def test_topology_defaults_follow_the_device() -> None:
    from torchrec.distributed.planner import Topology, constants

    npu = Topology(world_size=1, compute_device="npu")
    assert npu.devices[0].storage.hbm == 64 * GIB
    assert npu.hbm_mem_bw == constants.NPU_HBM_MEM_BW
    cuda = Topology(world_size=1, compute_device="cuda")
    assert cuda.devices[0].storage.hbm == 32 * GIB
    assert (cuda.hbm_mem_bw, cuda.intra_host_bw) == (constants.HBM_MEM_BW, constants.INTRA_NODE_BANDWIDTH)
    assert Topology(world_size=1, compute_device="npu", hbm_mem_bw=5.0).hbm_mem_bw == 5.0
    with pytest.raises(AssertionError, match="unsupported compute device tpu"):
        Topology(world_size=1, compute_device="tpu")


def test_table_larger_than_one_npu_is_split() -> None:
    from torchrec.distributed.planner import Topology

    topology = Topology(world_size=4, compute_device="npu", hbm_cap=3 * GIB)
    plan = plan_for(topology, make_model([16 * 10**6], dim=64))  # 4 GB
    shards = shards_of(plan)
    assert len(shards) > 1 and {str(s.placement).split("/")[1][:3] for s in shards} == {"npu"}


def test_sharders_offer_what_npus_can_do() -> None:
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder

    sharder = EmbeddingBagCollectionSharder()
    assert set(sharder.sharding_types("npu")) == set(sharder.sharding_types("cuda"))
    assert sharder.compute_kernels("row_wise", "npu") == ["fused"]
    assert sharder.compute_kernels("data_parallel", "npu") == ["dense"]
    assert "fused_uvm_caching" in sharder.compute_kernels("row_wise", "cuda")


def test_bandwidth_of_each_npu_kernel() -> None:
    from torchrec.distributed.planner.constants import kernel_bw_lookup

    def bandwidth(device: str, kernel: str) -> float | None:
        return kernel_bw_lookup(device, kernel, hbm_mem_bw=100.0, ddr_mem_bw=10.0, hbm_to_ddr_mem_bw=1.0)

    assert bandwidth("npu", "fused") == 100.0
    assert bandwidth("npu", "dense") == 50.0
    assert bandwidth("npu", "fused_uvm") is None
    assert bandwidth("cuda", "fused") == 100.0
