"""A small jagged HSTU-like model trains on npu:0 and on the CPU.

Prints {optimizer: [largest difference of the losses, first loss, last loss]}; the arguments name the optimizers.
"""

from __future__ import annotations

import copy
import json
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812

VOCABULARY, MAX_LENGTH, BATCH, STEPS = 100, 20, 16, 5


class Layer(nn.Module):
    """Pointwise attention with a relative position bias and gating, as in HSTU."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.uvqk = nn.Parameter(torch.randn(width, 4 * width) * 0.02)
        self.input_norm, self.output_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.output = nn.Linear(width, width)
        self.position_bias = nn.Parameter(torch.zeros(2 * MAX_LENGTH))

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        u, v, q, k = torch.split(F.silu(self.input_norm(x) @ self.uvqk), [width] * 4, -1)
        q, k, v = (t.view(batch, length, self.heads, -1) for t in (q, k, v))
        position = torch.arange(length, device=x.device)
        distance = (position[:, None] - position[None] + MAX_LENGTH).reshape(-1)
        bias = self.position_bias.index_select(0, distance).view(1, 1, length, length)
        scores = F.silu(torch.einsum("bnhd,bmhd->bhnm", q, k) + bias) / length
        causal = torch.tril(torch.ones(length, length, device=x.device)).bool()
        valid = causal[None] & (position[None, None] < lengths[:, None, None])
        scores = torch.where(valid[:, None], scores, torch.zeros((), device=x.device))
        attended = torch.einsum("bhnm,bmhd->bnhd", scores, v).reshape(batch, length, width)
        return x + self.output(u * self.output_norm(attended))


class Model(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.items, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(MAX_LENGTH, width)
        self.layers = nn.ModuleList([Layer(width, heads=2) for _ in range(2)])
        self.head = nn.Linear(2 * width, 1)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x = self.items(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x, lengths)
        flat = torch.cat([row[: int(n)] for row, n in zip(x, lengths)])
        last = flat.index_select(0, torch.cumsum(lengths, 0) - 1)
        mean = torch.stack([part.mean(0) for part in torch.split(flat, lengths.tolist())])
        return self.head(torch.cat([last, mean], 1)).squeeze(-1)


OPTIMIZERS = {
    "Adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1),
    "Adam_single": lambda p: torch.optim.Adam(p, lr=1e-2, foreach=False),
    "Adam_foreach": lambda p: torch.optim.Adam(p, lr=1e-2, foreach=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
}


def train(model: nn.Module, optimizer: str, device: str, batch: list[torch.Tensor]) -> list[float]:
    model = copy.deepcopy(model).to(device)
    step = OPTIMIZERS[optimizer](model.parameters())
    ids, lengths, labels = (t.to(device) for t in batch)
    losses = []
    for _ in range(STEPS):
        step.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(ids, lengths), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        step.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    torch.manual_seed(0)
    model = Model()
    batch = [
        torch.randint(0, VOCABULARY, (BATCH, MAX_LENGTH)),
        torch.randint(1, MAX_LENGTH + 1, (BATCH,)),
        (torch.rand(BATCH) > 0.5).float(),
    ]
    report = {}
    for name in sys.argv[1:]:
        npu, cpu = train(model, name, "npu:0", batch), train(model, name, "cpu", batch)
        report[name] = [max(abs(a - b) for a, b in zip(npu, cpu)), npu[0], npu[-1]]
    print(json.dumps(report))


if __name__ == "__main__":
    main()
