"""torchrec.distributed.test_utils' TestSparseNN, as it is: it makes its collections from the configs it is given."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hybrid_torchrec import OptimizerSpec
from hybrid_torchrec.modules import HashEmbeddingBagConfig, use_hash_tables
from hybrid_torchrec.modules.config import seed_of
from sharded_model import INITIAL
from torch import Tensor, nn
from torchrec import EmbeddingBagConfig
from torchrec.distributed.test_utils.test_model import ModelInput, TestSparseNN

STEPS = 6
BATCH = 3  # of each rank
RATE = 0.5
FLOATS = 10
FIELDS = [
    {"name": "a", "num_embeddings": 20, "embedding_dim": 8, "feature_names": ["fa"]},
    {"name": "b", "num_embeddings": 30, "embedding_dim": 8, "feature_names": ["fb", "fc"]},
]
WEIGHTED = [{"name": "w", "num_embeddings": 15, "embedding_dim": 4, "feature_names": ["fw"]}]


def make_model(sparse_device: torch.device, *, static: bool = False) -> nn.Module:
    """Hash tables in the collection without weights; the weighted one stays static in both models."""
    spec = OptimizerSpec(kind="sgd", lr=RATE)
    tables = [
        EmbeddingBagConfig(**fields)
        if static
        else HashEmbeddingBagConfig(optimizer=spec, initializer=INITIAL, **fields)
        for fields in FIELDS
    ]
    weighted = [EmbeddingBagConfig(init_fn=constant, **fields) for fields in WEIGHTED]
    model = TestSparseNN(
        tables=tables, weighted_tables=weighted, num_float_features=FLOATS, sparse_device=sparse_device
    )
    generator = torch.Generator().manual_seed(1)
    for parameter in (*model.dense.parameters(), *model.over.parameters()):
        with torch.no_grad():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) - 0.5)
    if static:
        for fields in FIELDS:
            weight = model.sparse.ebc.embedding_bags[fields["name"]].weight
            with torch.no_grad():
                ids = torch.arange(fields["num_embeddings"])
                weight.copy_(INITIAL.rows(ids, fields["embedding_dim"], seed_of(HashEmbeddingBagConfig(**fields))))
        return model
    return use_hash_tables(model)


def constant(weight: Tensor) -> Tensor:
    with torch.no_grad():
        return weight.fill_(0.25)


def batches(world: int) -> list[list[ModelInput]]:
    """By step, the batch of each rank."""
    torch.manual_seed(2)
    tables = [EmbeddingBagConfig(**fields) for fields in FIELDS]
    weighted = [EmbeddingBagConfig(**fields) for fields in WEIGHTED]
    return [
        ModelInput.generate(
            batch_size=BATCH,
            world_size=world,
            num_float_features=FLOATS,
            tables=tables,
            weighted_tables=weighted,
            pooling_avg=3,
        )[1]
        for _ in range(STEPS)
    ]


def train(model: nn.Module, mine: Sequence[ModelInput], device: torch.device, pipeline_type: type | None) -> Tensor:
    """Predictions (STEPS, BATCH). All but the hash tables is trained by plain SGD."""
    from torchrec.optim.keyed import KeyedOptimizerWrapper
    from torchrec.optim.optimizers import in_backward_optimizer_filter

    dense = KeyedOptimizerWrapper(
        dict(in_backward_optimizer_filter(model.named_parameters())),
        lambda parameters: torch.optim.SGD(parameters, lr=RATE),
    )
    predictions = []
    if pipeline_type is None:
        for batch in mine:
            dense.zero_grad()
            loss, prediction = model(batch)
            loss.backward()
            dense.step()
            predictions.append(prediction.detach())
        return torch.stack(predictions)
    pipeline = pipeline_type(model, dense, device)
    loader = iter(mine)
    while True:
        try:
            predictions.append(pipeline.progress(loader).detach())
        except StopIteration:
            return torch.stack(predictions)
