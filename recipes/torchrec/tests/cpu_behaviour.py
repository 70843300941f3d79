"""Run torchrec on the CPU and save everything it computes (run as a program: cpu_behaviour.py FOLDER)."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torchrec import (
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    EmbeddingCollection,
    EmbeddingConfig,
    JaggedTensor,
    KeyedJaggedTensor,
    PoolingType,
)
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection


def features(step: int, weighted: bool = False) -> KeyedJaggedTensor:
    generator = torch.Generator().manual_seed(step)
    lengths = torch.randint(0, 4, (12,), generator=generator)
    total = int(lengths.sum())
    values = torch.randint(0, 9, (total,), generator=generator)
    weights = torch.rand(total, generator=generator) if weighted else None
    return KeyedJaggedTensor(keys=["a", "b", "c"], values=values, lengths=lengths, weights=weights)


def tables(config: type, **extra: object) -> list[object]:
    return [
        config(name="t0", num_embeddings=9, embedding_dim=8, feature_names=["a", "b"], **extra),
        config(name="t1", num_embeddings=11, embedding_dim=8, feature_names=["c"], **extra),
    ]


def train(module: torch.nn.Module, weighted: bool = False, fused: bool = False) -> list[torch.Tensor]:
    seen = []
    optimizer = None if fused else torch.optim.Adagrad(module.parameters(), lr=0.1)
    for step in range(3):
        out = module(features(step, weighted))
        parts = [out.values()] if hasattr(out, "values") and callable(out.values) and not isinstance(out, dict) else []
        parts = parts or [item.values() for item in out.values()]
        loss = sum(part.square().sum() for part in parts)
        if optimizer is not None:
            optimizer.zero_grad()
        loss.backward()
        if optimizer is not None:
            optimizer.step()
        seen += [part.detach().clone() for part in parts]
    return seen + [value.clone() for value in module.state_dict().values()]


def plans() -> list[str]:
    """Plans for cpu and cuda; no device is needed to make them."""
    found = []
    for device in ("cpu", "cuda"):
        topology = Topology(world_size=4, compute_device=device, local_world_size=2)
        found.append(repr([(d.storage.hbm, d.storage.ddr) for d in topology.devices]))
        bandwidths = (topology.hbm_mem_bw, topology.ddr_mem_bw, topology.intra_host_bw, topology.inter_host_bw)
        found.append(repr(bandwidths))
        model = torch.nn.ModuleDict(
            {
                "e": EmbeddingBagCollection(
                    tables=[
                        EmbeddingBagConfig(
                            name=f"t{n}", num_embeddings=1000 * (n + 1), embedding_dim=64, feature_names=[f"f{n}"]
                        )
                        for n in range(6)
                    ],
                    device=torch.device("meta"),
                )
            }
        )
        plan = EmbeddingShardingPlanner(topology=topology).plan(model, [EmbeddingBagCollectionSharder()])
        found.append(str(plan))
    return found


def main() -> None:
    torch.manual_seed(0)
    result: dict[str, object] = {}
    for pooling in (PoolingType.SUM, PoolingType.MEAN):
        bags = tables(EmbeddingBagConfig, pooling=pooling)
        result[f"bags {pooling}"] = train(EmbeddingBagCollection(tables=bags))
    result["weighted"] = train(
        EmbeddingBagCollection(tables=tables(EmbeddingBagConfig), is_weighted=True), weighted=True
    )
    result["sequences"] = train(EmbeddingCollection(tables=tables(EmbeddingConfig)))
    for optimizer in (torch.optim.SGD, torch.optim.Adagrad):
        fused = FusedEmbeddingBagCollection(
            tables=tables(EmbeddingBagConfig), optimizer_type=optimizer, optimizer_kwargs={"lr": 0.1}
        )
        result[f"fused {optimizer.__name__}"] = train(fused, fused=True)
    kjt = features(5, weighted=True)
    permuted = kjt.permute([2, 0, 1])
    pieces = [permuted.values(), permuted.lengths(), permuted.weights(), *[p.values() for p in kjt.split([1, 2])]]
    jagged = JaggedTensor(values=torch.arange(6.0), lengths=torch.tensor([2, 0, 4]))
    result["kjt"] = [*pieces, jagged.to_padded_dense(3), kjt.to(torch.device("cpu")).values()]
    result["plans"] = plans()
    torch.save(result, Path(sys.argv[1]) / "results.pt")


if __name__ == "__main__":
    main()
