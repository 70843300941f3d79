"""Lookups in several tables and the fused optimizer step."""

from __future__ import annotations

import numpy as np
from cases import Argument, Case, NoOutput, Output
from embedding_reference import MEAN, NONE, SUM, Optimizer, Tables, aggregate, forward, random_bags, weight_gradient
from workshop import Operator

LOOKUP = Operator(
    "split_embedding_codegen_forward_unweighted",
    "SplitEmbeddingCodegenForwardUnweighted",
    17,
    {"DTYPE_DEV_WEIGHTS": "float"},
)
UPDATE = Operator(
    "backward_codegen_adagrad_unweighted_exact",
    "BackwardCodegenAdagradUnweightedExact",
    31,
    {"DTYPE_DEV_WEIGHTS": "float"},
)
OPTIMIZERS = {"adagrad": 1, "adam": 2, "sgd": 3, "rowwise_adagrad": 4}
DEV_WEIGHTS, MOMENTUM1, MOMENTUM2 = 1, 11, 15  # positions among the arguments of UPDATE


def lookup_case(name: str, tables: Tables, pooling: int, batch: int, weighted: bool = False) -> Case:
    rng = np.random.default_rng(batch)
    weights = rng.integers(-20, 21, tables.elements).astype(np.float32)
    indices, offsets = random_bags(rng, tables, batch, 9)
    indices[:: max(1, len(indices) // 3)] = 10**9  # no row of any table
    factors = rng.integers(-3, 4, len(indices)).astype(np.float32) if weighted else None
    out = forward(tables, weights, indices, offsets, pooling, factors).astype(np.float32)
    placements = np.zeros(len(tables.features), np.int32)
    inputs: list[Argument] = [weights, None, None, placements, tables.weights_offsets, tables.d_offsets]
    inputs += [indices, offsets, None, None, None, factors, None]
    attributes: list[Argument] = [int(tables.d_offsets[-1]), max(tables.dims), pooling, 0, False, False]
    return Case(name, [*inputs, *attributes, Output(out, tolerance=1e-6 if pooling == MEAN else 0), NoOutput()])


def update_case(
    name: str,
    tables: Tables,
    optimizer: Optimizer,
    pooling: int,
    batch: int,
    longest: int = 9,
    hot: float = 0.0,
    weighted: bool = False,
) -> Case:
    """weighted: bags with weights of their own, whose gradient is asked for."""
    rng = np.random.default_rng(batch)
    weights = rng.uniform(-1, 1, tables.elements).astype(np.float32)
    indices, offsets = random_bags(rng, tables, batch, longest, hot)
    shape = (len(indices), max(tables.dims)) if pooling == NONE else (batch, int(tables.d_offsets[-1]))
    grad = rng.uniform(-1, 1, shape).astype(np.float32)
    factors = rng.uniform(-1, 1, len(indices)).astype(np.float32) if weighted else None
    updated, (m1, m2) = weights.astype(np.float64), optimizer.states(tables)
    before1, before2 = m1.astype(np.float32), m2.astype(np.float32)
    optimizer.apply(tables, updated, m1, m2, aggregate(tables, grad, indices, offsets, pooling, factors))
    dots = weight_gradient(tables, weights, grad, indices, offsets, pooling) if weighted else np.zeros(0)

    def outcome(expected: np.ndarray, updates: int = -1) -> Output:
        return Output(expected.astype(np.float32), tolerance=1e-5, updates=updates)

    placements = np.zeros(len(tables.features), np.int32)
    state1 = [before1, None, placements, optimizer.state_offsets(tables)] if len(m1) else [None] * 4
    state2 = [before2, None, placements, tables.weights_offsets] if len(m2) else [None] * 4
    inputs: list[Argument] = [grad, weights, None, None, placements, tables.weights_offsets, tables.d_offsets]
    inputs += [tables.hash_size_cumsum, indices, offsets, None, *state1, *state2, None, None, None, None, factors, None]
    o = optimizer
    attributes: list[Argument] = [max(tables.dims), 0, pooling, 0, 0, 0, 0, 0, 0, 0, OPTIMIZERS[o.name], 1]
    attributes += [o.eps, o.learning_rate, o.beta1, o.beta2, o.weight_decay, o.max_norm, -1.0]
    attributes += [o.weight_decay_mode, False, weighted, 1 - o.beta1, 1 - o.beta2, 0]
    outputs: list[Argument] = [
        outcome(dots),
        outcome(m1, MOMENTUM1) if len(m1) else NoOutput(),
        outcome(m2, MOMENTUM2) if len(m2) else NoOutput(),
        outcome(updated, DEV_WEIGHTS),
    ]
    return Case(name, [*inputs, *attributes, *outputs])


# Tables of several widths, shared by features; rows beyond a tile of columns.
MIXED, EQUAL = Tables([50, 300, 7], [8, 3, 20], [0, 1, 1, 2]), Tables([40, 9], [17, 17])
ROWWISE = Optimizer("rowwise_adagrad", eps=1e-3, weight_decay=0.05, weight_decay_mode=1, max_norm=2.0)
LOOKUP_CASES = [
    lookup_case("sums", MIXED, SUM, 12, weighted=True),
    lookup_case("means", MIXED, MEAN, 7),
    lookup_case("rows", EQUAL, NONE, 20),
    lookup_case("wide rows", Tables([4], [2100]), SUM, 3),
]
# Rows of one contribution, rows over several blocks of 128, and rows beyond a tile of columns.
UPDATE_CASES = [
    update_case("hot rows", Tables([1000], [5]), Optimizer("adagrad", eps=1e-3), SUM, 12, longest=120, hot=0.7),
    update_case("few rows", Tables([5], [5]), Optimizer("adagrad", eps=1e-3), SUM, 12, longest=120),
    update_case("shared tables", MIXED, Optimizer("rowwise_adagrad", eps=1e-3), MEAN, 9),
    update_case("rows", EQUAL, Optimizer("adam", eps=1e-3), NONE, 20),
    update_case("weights", MIXED, Optimizer("sgd"), SUM, 6, weighted=True),
    update_case("wide rows", Tables([4], [5000]), Optimizer("sgd"), SUM, 2, longest=4),
    update_case("wide rows with sums", Tables([4], [5000]), ROWWISE, SUM, 2, longest=4),
    update_case("wide rows with weights", Tables([3], [7001]), Optimizer("sgd"), SUM, 2, longest=4, weighted=True),
]
CASES = {LOOKUP: LOOKUP_CASES, UPDATE: UPDATE_CASES}
