"""Steps of hash tables on an NPU for TWIN_COUNTS, in the order of CASES. Ids, offsets and factors are the host's.

Prints, by case, the sum of squares of the rows, on the NPU and on the CPU.
"""

from __future__ import annotations

import ctypes
import json

import gr_ops
import torch
import torch_npu  # noqa: F401
from hybrid_torchrec import LFU, AdmitAfter, Normal, OptimizerSpec
from hybrid_torchrec.modules import (
    HashEmbeddingBagCollection,
    HashEmbeddingBagConfig,
    HashEmbeddingCollection,
    HashEmbeddingConfig,
)
from torchrec import KeyedJaggedTensor

STEPS, DIM = 3, 8
# By gr_ops' operators, and by PyTorch's, of which those steps are that gr_ops does not have.
OPTIMIZERS = {
    "adagrad": OptimizerSpec(kind="adagrad", lr=0.05),
    "lamb": OptimizerSpec(kind="lamb", lr=0.05),
    "adam with decay": OptimizerSpec(kind="adam", lr=0.05, weight_decay=0.1),
}
CASES = [f"{kind}, {name}" for name in OPTIMIZERS for kind in ("sequences", "bags")]


def collection(case: str, device: str) -> torch.nn.Module:
    kind, _, optimizer = case.partition(", ")
    settings = {
        "name": "t",
        "embedding_dim": DIM,
        "num_embeddings": 100,
        "feature_names": ["a", "b"],
        "optimizer": OPTIMIZERS[optimizer],
        "initializer": Normal(std=0.5),
        "admission": AdmitAfter(sightings=2),
        "eviction": LFU(),
        "initial_capacity": 4,
        "max_rows": 40,
    }
    if kind == "bags":
        return HashEmbeddingBagCollection([HashEmbeddingBagConfig(**settings)], device=device, is_weighted=True)
    return HashEmbeddingCollection([HashEmbeddingConfig(**settings)], device=device)


def batch(step: int, weighted: bool) -> KeyedJaggedTensor:
    generator = torch.Generator().manual_seed(step)
    lengths = torch.tensor([3, 0, 20, 7, 9, 1])
    ids = (torch.rand(40, generator=generator) ** 2 * 60).long() - 7
    weights = torch.rand(40, generator=generator) if weighted else None
    return KeyedJaggedTensor(keys=["a", "b"], values=ids, lengths=lengths, weights=weights)


def train(case: str, device: str) -> float:
    library = ctypes.CDLL("libms_tools_ext.so")
    library.mstxRangeStartA.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    library.mstxRangeStartA.restype = ctypes.c_uint64
    library.mstxRangeEnd.argtypes = [ctypes.c_uint64]
    module = collection(case, device)
    table = next(iter(module.tables().values())).whole.table  # made before the steps
    for step in range(STEPS):
        opened = library.mstxRangeStartA(f"step {step + 1}".encode(), None) if device != "cpu" else 0
        out = module(batch(step, case.startswith("bags")))
        values = out.values() if case.startswith("bags") else torch.cat([part.values() for part in out.values()])
        values.square().sum().backward()
        if device != "cpu":
            library.mstxRangeEnd(opened)
    assert table.evictions > 0 or len(table) > 4, (table.evictions, len(table))
    return float(table.read(table.ids().sort().values)[0].weights.cpu().double().square().sum())


def main() -> None:
    gr_ops.load()
    print(json.dumps({case: [train(case, device) for device in ("npu:0", "cpu")] for case in CASES}))


if __name__ == "__main__":
    main()
