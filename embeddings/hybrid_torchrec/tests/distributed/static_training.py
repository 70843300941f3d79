"""The same training in torchrec's static collections, dense autograd and torch's optimizers, in one process."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hybrid_torchrec import OptimizerSpec
from hybrid_torchrec.modules.config import HashEmbeddingConfig, seed_of
from sharded_data import TABLES, make_batch, raw_ids
from sharded_model import INITIAL, OVER_RATE, dims, static_model
from sharded_program import Case, specs
from torch import Tensor
from torchrec.optim import RowWiseAdagrad


def train(case: Case) -> dict[str, object]:
    """predictions (steps, global batch); by table, ids of all rows, ascending, and their weights; `over`.

    Optimizers work in float64: their roundings are not what is measured.
    """
    model = static_model(case.module, case.rows)
    ids = raw_ids(case.rows)
    tables: dict[str, Tensor] = {}
    for name, dim in dims(case.module).items():
        tables[name] = model.get_parameter(f"sparse.{prefix(case.module)}.{name}.weight")
        seed = seed_of(HashEmbeddingConfig(name=name, embedding_dim=dim, num_embeddings=1))
        with torch.no_grad():
            tables[name].copy_(INITIAL.rows(ids, dim, seed))
    step_tables = [step_of(spec, tables[name]) for name, spec in zip(tables, specs(case.optimizer))]
    over = torch.optim.SGD(model.over.parameters(), lr=OVER_RATE)
    every = 2 if case.how == "accumulate" else 1
    predictions = []
    seen: dict[str, set[int]] = {name: set() for name in tables}
    for step in range(case.steps):
        batch = make_batch(
            step, 0, 1, case.rows, every_row=case.every_row, static=True, weighted=case.module == "weighted"
        )
        for name, features in TABLES.items():
            for feature in features:
                seen[name].update(batch.features[feature].values().tolist())
        loss, prediction = model(batch)
        (loss / every).backward()
        predictions.append(prediction.detach())
        if step % every == every - 1:
            for apply in step_tables:
                apply()
            over.step()
            model.zero_grad()
    result: dict[str, object] = {"predictions": torch.stack(predictions), "over": model.over.weight.detach()}
    for name, table in tables.items():
        used = torch.tensor(sorted(seen[name], key=lambda row: int(ids[row])))
        result[name] = {"ids": ids[used], "weights": table.detach()[used]}
    return result


def prefix(module: str) -> str:
    return "embeddings" if module == "sequences" else "embedding_bags"


def step_of(spec: OptimizerSpec, table: Tensor) -> Callable[[], None]:
    """torch's (torchrec's) own optimizer of that kind, in float64."""
    exact = table.detach().double().requires_grad_()
    optimizer = optimizer_of(spec, exact)

    def step() -> None:
        assert table.grad is not None
        exact.grad = table.grad.double()
        optimizer.step()
        with torch.no_grad():
            table.copy_(exact)

    return step


def optimizer_of(spec: OptimizerSpec, table: Tensor) -> torch.optim.Optimizer | Lamb | Lion:
    common = {"lr": spec.lr, "weight_decay": spec.weight_decay}
    if spec.kind == "sgd":
        return torch.optim.SGD([table], **common)
    if spec.kind == "adagrad":
        return torch.optim.Adagrad([table], eps=spec.epsilon, **common)
    if spec.kind == "rowwise_adagrad":
        return RowWiseAdagrad([table], eps=spec.epsilon, **common)
    if spec.kind == "adam":
        return torch.optim.Adam([table], eps=spec.epsilon, **common)
    if spec.kind == "adamw":
        return torch.optim.AdamW([table], eps=spec.epsilon, **common)
    if spec.kind == "lion":
        return Lion(table, spec)
    assert spec.kind == "lamb", spec.kind
    return Lamb(table, spec)


class Lamb:
    """You et al. 2020, algorithm 2, per row and with bias correction; neither torch nor fbgemm on a CPU has it."""

    def __init__(self, table: Tensor, spec: OptimizerSpec) -> None:
        self.table = table
        self.spec = spec
        self.first = torch.zeros_like(table)
        self.second = torch.zeros_like(table)
        self.iteration = 0

    @torch.no_grad()
    def step(self) -> None:
        assert self.table.grad is not None
        grad, weights = self.table.grad, self.table
        beta1, beta2 = self.spec.betas
        self.iteration += 1
        self.first += (1 - beta1) * (grad - self.first)
        self.second += (1 - beta2) * (grad.square() - self.second)
        corrected = self.first / (1 - beta1**self.iteration)
        direction = corrected / ((self.second / (1 - beta2**self.iteration)).sqrt() + self.spec.epsilon)
        direction += self.spec.weight_decay * weights
        trust = weights.norm(dim=1, keepdim=True) / direction.norm(dim=1, keepdim=True)
        self.table.copy_(weights - self.spec.lr * trust * direction)


class Lion:
    """Chen et al. 2023, algorithm 2; torch has none."""

    def __init__(self, table: Tensor, spec: OptimizerSpec) -> None:
        self.table = table
        self.spec = spec
        self.momentum = torch.zeros_like(table)

    @torch.no_grad()
    def step(self) -> None:
        assert self.table.grad is not None
        grad = self.table.grad
        beta1, beta2 = self.spec.betas
        update = torch.sign(torch.lerp(grad, self.momentum, beta1))
        self.momentum = torch.lerp(grad, self.momentum, beta2)
        self.table.sub_(self.spec.lr * (update + self.spec.weight_decay * self.table))
