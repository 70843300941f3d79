"""fbgemm's own module on the CPU, our kernels and float64 side by side, 20 steps with duplicates.

Run with MXREC_NO_FBGEMM_OVERRIDE=1.
"""

import fbgemm_gpu  # noqa: F401
import gr_ops  # noqa: F401
import torch
from embedding_cases import MEAN, SUM, Module, Optimizer, Tables
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    SplitTableBatchedEmbeddingBagsCodegen,
)

KINDS = {
    "sgd": EmbOptimType.EXACT_SGD,
    "adagrad": EmbOptimType.EXACT_ADAGRAD,
    "rowwise_adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
}
ROWS, DIMS, FEATURES = [50, 7, 200], [16, 4, 64], [0, 1, 1, 2]
RATE, EPS = 0.05, 1e-3
TOLERANCE = 1e-6
STEPS, SAMPLES = 20, 30


class Exact:
    """The same training in float64, by the formulas of the operators."""

    def __init__(self, name: str, pooling: int, weights: torch.Tensor) -> None:
        self.name, self.pooling = name, pooling
        sizes = [rows * dim for rows, dim in zip(ROWS, DIMS)]
        self.tables = [part.double().view(-1, dim) for part, dim in zip(weights.split(sizes), DIMS)]
        self.sums = [torch.zeros(len(t)) if name == "rowwise_adagrad" else torch.zeros_like(t) for t in self.tables]
        self.sums = [s.double() for s in self.sums]

    def bags(self, indices: torch.Tensor, lengths: torch.Tensor, factors: torch.Tensor | None) -> None:
        """Of one step: for each feature its rows, the sample that each belongs to, and its factor."""
        self.features = []
        factors = torch.ones(len(indices)) if factors is None else factors
        ends = lengths.view(len(FEATURES), SAMPLES).sum(1).tolist()
        for one, factor, counts in zip(indices.split(ends), factors.split(ends), lengths.view(len(FEATURES), SAMPLES)):
            samples = torch.arange(SAMPLES).repeat_interleave(counts)
            scale = factor.double() / (counts[samples] if self.pooling == MEAN else 1)
            self.features.append((one, samples, scale[:, None]))

    def lookup(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Sums of rows, and the magnitudes of their terms, at which each term may be off by TOLERANCE."""
        sums, magnitudes = ([torch.zeros(SAMPLES, DIMS[t]).double() for t in FEATURES] for _ in range(2))
        for total, magnitude, table, (rows, samples, scale) in zip(sums, magnitudes, FEATURES, self.features):
            terms = self.tables[table][rows] * scale
            total.index_add_(0, samples, terms)
            magnitude.index_add_(0, samples, scale + terms.abs())
        return torch.cat(sums, 1), torch.cat(magnitudes, 1)

    def step(self, grad: torch.Tensor) -> None:
        gradients = [torch.zeros_like(table) for table in self.tables]
        columns = grad.double().split([DIMS[t] for t in FEATURES], 1)
        for part, table, (rows, samples, scale) in zip(columns, FEATURES, self.features):
            gradients[table].index_add_(0, rows, part[samples] * scale)  # a row with the gradient 0 does not move
        for table, sums, g in zip(self.tables, self.sums, gradients):
            if self.name == "sgd":
                table -= RATE * g
            elif self.name == "adagrad":
                sums += g * g
                table -= RATE * g / (sums.sqrt() + EPS)
            else:
                sums += (g * g).mean(1)
                table -= (RATE / (sums.sqrt() + EPS))[:, None] * g


class Distances:
    """Differences of ours and stock's from float64 and from each other, relative to 1 + the magnitude.

    The magnitude of a weight is its own; that of a sum of rows, which may cancel, comes from lookup().
    """

    def __init__(self) -> None:
        self.largest = dict.fromkeys(("ours", "stock", "apart"), 0.0)
        self.squares = dict.fromkeys(("ours", "stock"), 0.0)

    def add(
        self, ours: torch.Tensor, stock: torch.Tensor, exact: torch.Tensor, magnitude: torch.Tensor | None = None
    ) -> None:
        size = 1 + (exact.abs() if magnitude is None else magnitude)
        for key, difference in (("ours", ours - exact), ("stock", stock - exact), ("apart", ours - stock)):
            relative = difference.detach().double() / size
            self.largest[key] = max(self.largest[key], relative.abs().max().item())
            if key in self.squares:
                self.squares[key] += relative.square().sum().item()

    def check(self) -> None:
        assert self.largest["apart"] < TOLERANCE, self.largest
        assert self.largest["ours"] < TOLERANCE, self.largest
        # No farther from float64 than stock: which of the two rounds an element better is chance.
        assert self.squares["ours"] <= 1.05 * self.squares["stock"], self.squares


def train(name: str, pooling: int, weighted: bool) -> dict[str, Distances]:
    """Distances of the outputs of all steps, and of the weights and the state after the last one."""
    torch.manual_seed(0)
    stock = SplitTableBatchedEmbeddingBagsCodegen(
        [(r, d, EmbeddingLocation.HOST, ComputeDevice.CPU) for r, d in zip(ROWS, DIMS)],
        feature_table_map=FEATURES,
        optimizer=KINDS[name],
        learning_rate=RATE,
        eps=EPS,
        pooling_mode={SUM: PoolingMode.SUM, MEAN: PoolingMode.MEAN}[pooling],
    )
    stock.init_embedding_weights_uniform(-1, 1)
    tables = Tables(ROWS, DIMS, FEATURES)
    weights = torch.cat([w.detach().flatten() for w in stock.split_embedding_weights()])
    ours = Module(tables, Optimizer(name, learning_rate=RATE, eps=EPS), weights.clone(), host=True)
    exact = Exact(name, pooling, weights)
    distances = {"outputs": Distances(), "weights": Distances(), "state": Distances()}
    for _ in range(STEPS):
        rows = torch.tensor(ROWS)[FEATURES]
        lengths = torch.randint(0, 9, (len(FEATURES) * SAMPLES,))
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        limits = rows.repeat_interleave(SAMPLES).repeat_interleave(lengths)
        indices = (torch.rand(int(offsets[-1])) ** 3 * limits).long()  # low rows are frequent
        factors = torch.rand(len(indices)) if weighted else None
        out = stock(indices, offsets, per_sample_weights=factors)
        mine = ours.lookup(indices, offsets, pooling, indice_weights=factors)
        exact.bags(indices, lengths, factors)
        distances["outputs"].add(mine, out, *exact.lookup())
        grad = torch.rand(out.shape) - 0.5
        out.backward(grad)
        mine.backward(grad)
        exact.step(grad)
    after = torch.cat([w.flatten() for w in stock.split_embedding_weights()])
    distances["weights"].add(ours.weights, after, torch.cat([table.flatten() for table in exact.tables]))
    if name != "sgd":
        state = torch.cat([s[0].flatten() for s in stock.split_optimizer_states()])
        assert state.abs().sum() > 0
        distances["state"].add(ours.momentum1, state, torch.cat([sums.flatten() for sums in exact.sums]))
    return distances


if __name__ == "__main__":
    # Not MEAN with weights: stock's gradient lacks the 1 / length there.
    for name in KINDS:
        for pooling, weighted in ((SUM, False), (SUM, True), (MEAN, False)):
            for what, found in train(name, pooling, weighted).items():
                largest = ", ".join(f"{key} {value:.1e}" for key, value in found.largest.items())
                print(f"{name}, pooling {pooling}, weighted {weighted}, {what}: {largest}; squares {found.squares}")
                found.check()
    print("parity ok")
