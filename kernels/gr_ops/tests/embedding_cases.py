"""Calls of the embedding operators as fbgemm's Python code makes them, beside the NumPy references of the operators."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "operators/common/tests"))

from embedding_reference import (  # noqa: E402
    MEAN,
    NONE,
    SUM,
    Optimizer,
    Tables,
    aggregate,
    forward,
    random_bags,
    weight_gradient,
)

__all__ = [
    "MEAN",
    "NONE",
    "OPTIMIZERS",
    "POOLINGS",
    "SUM",
    "Module",
    "Optimizer",
    "Tables",
    "aggregate",
    "forward",
    "random_bags",
    "weight_gradient",
]

OPTIMIZERS = ["sgd", "adagrad", "rowwise_adagrad", "adam"]
POOLINGS = [SUM, MEAN, NONE]
OUTPUT_DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 5}
OPTIONS = {
    "sgd": (),
    "adagrad": ("eps",),
    "rowwise_adagrad": ("eps", "weight_decay", "weight_decay_mode", "max_norm"),
    "adam": ("eps", "beta1", "beta2", "weight_decay"),
}


@dataclass
class Module:
    """Weights and optimizer state of some tables on a device."""

    tables: Tables
    optimizer: Optimizer
    weights: torch.Tensor
    space: str = "mxrec"
    host: bool = False  # the entry point for CPU tensors, as fbgemm's CPU build has it
    momentum1: torch.Tensor = field(init=False)
    momentum2: torch.Tensor = field(init=False)
    iteration: int = 0

    def __post_init__(self) -> None:
        self.momentum1, self.momentum2 = (
            torch.from_numpy(state.astype(np.float32)).to(self.weights.device)
            for state in self.optimizer.states(self.tables)
        )

    def tensor(self, array: np.ndarray | Sequence[int]) -> torch.Tensor:
        return torch.from_numpy(np.asarray(array)).to(self.weights.device)

    def head(self) -> dict[str, object]:
        """Arguments about the tables, by the names that every entry point has."""
        tables = self.tables
        return {
            "weights_placements": self.tensor(np.zeros(len(tables.features), np.int32)),
            "weights_offsets": self.tensor(tables.weights_offsets),
            "D_offsets": self.tensor(tables.d_offsets),
            "total_D": int(tables.d_offsets[-1]),
            "max_D": max(tables.dims),
            "hash_size_cumsum": self.tensor(tables.hash_size_cumsum),
            "total_hash_size_bits": int(np.log2(float(tables.hash_size_cumsum[-1]))) + 1,
        }

    def state(self) -> dict[str, object]:
        kind = "host" if self.host else "dev"
        empty = torch.empty(0, device=self.weights.device)
        result: dict[str, object] = {}
        momenta = {"sgd": [], "adam": ["momentum1", "momentum2"]}.get(self.optimizer.name, ["momentum1"])
        for name in momenta:
            offsets = self.optimizer.state_offsets(self.tables)
            result[f"{name}_{kind}"] = getattr(self, name)
            result[f"{name}_placements"] = self.head()["weights_placements"]
            result[f"{name}_offsets"] = self.tensor(offsets)
            if not self.host:
                result[f"{name}_uvm"] = empty
        result |= {option: getattr(self.optimizer, option) for option in OPTIONS[self.optimizer.name]}
        result["learning_rate"] = self.optimizer.learning_rate
        return result

    def lookup(self, indices: torch.Tensor, offsets: torch.Tensor, pooling: int, **changes: object) -> torch.Tensor:
        """The differentiable lookup; its backward pass is the optimizer's step number `iteration`."""
        self.iteration += 1
        op = getattr(getattr(torch.ops, self.space), self.entry)
        return op(**{**self.arguments(indices, offsets, pooling), **changes})

    @property
    def entry(self) -> str:
        return f"split_embedding_codegen_lookup_{self.optimizer.name}_function{'_cpu' if self.host else ''}"

    def arguments(self, indices: torch.Tensor, offsets: torch.Tensor, pooling: int) -> dict[str, object]:
        """By name, as the entry point takes them."""
        device = self.weights.device
        empty = torch.empty(0, device=device)
        arguments: dict[str, object] = {
            **self.head(),
            **self.state(),
            "indices": indices,
            "offsets": offsets,
            "pooling_mode": pooling,
            "indice_weights": None,
            "feature_requires_grad": None,
            "gradient_clipping": False,
            "max_gradient": 1.0,
            "stochastic_rounding": False,
        }
        if self.host:
            arguments["host_weights"] = self.weights.requires_grad_()
        else:
            arguments |= {
                "placeholder_autograd_tensor": torch.zeros(0, device=device, requires_grad=True),
                "dev_weights": self.weights,
                "uvm_weights": empty,
                "lxu_cache_weights": empty,
                "lxu_cache_locations": torch.empty(0, dtype=torch.int32, device=device),
            }
        if self.optimizer.name == "adam" or not self.host:
            arguments["iter"] = self.iteration
        return arguments
