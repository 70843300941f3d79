"""One of two processes that train a recommender as public programs for CUDA do (run as a program).

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=... MASTER_PORT=... python cuda_recommender.py cuda|cpu fp32|bf16 STEPS FILE

The program knows CUDA and nccl, jagged operators of fbgemm's names, DistributedDataParallel and autocast. With `cuda`,
torch_npu's transfer_to_npu is imported first and nothing else is changed; with `cpu` it trains over gloo.
FILE gets the losses, one a line.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ITEMS, DIM, HEADS, LONGEST, NEGATIVES = 200, 32, 2, 24, 16


class Layer(nn.Module):
    """A layer of HSTU in PyTorch's operators: pointwise attention over rows that are padded for it."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Linear(DIM, 4 * DIM)
        self.output = nn.Linear(DIM, DIM)
        self.bias = nn.Parameter(torch.zeros(2 * LONGEST - 1))

    def forward(self, x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        u, v, q, k = F.silu(self.projection(F.layer_norm(x, [DIM]))).split(DIM, dim=-1)
        q, k, v = (torch.ops.fbgemm.jagged_to_padded_dense(part, [offsets], [LONGEST]) for part in (q, k, v))
        q, k, v = (part.view(len(part), LONGEST, HEADS, DIM // HEADS) for part in (q, k, v))
        at = torch.arange(LONGEST, device=x.device)
        scores = torch.einsum("bnhd,bmhd->bhnm", q, k) + self.bias[at[:, None] - at[None, :] + LONGEST - 1]
        weights = F.silu(scores) / LONGEST * torch.tril(scores.new_ones(LONGEST, LONGEST))
        attended = torch.einsum("bhnm,bmhd->bnhd", weights, v).reshape(len(q), LONGEST, DIM)
        attended = torch.ops.fbgemm.dense_to_jagged(attended, [offsets])[0]
        return x + self.output(u * F.layer_norm(attended, [DIM]))


class Recommender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.items = nn.Embedding(ITEMS, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """ids (N,), lengths (B,), targets (N, 1 + NEGATIVES), the right one first: the mean loss."""
        offsets = torch.ops.fbgemm.asynchronous_complete_cumsum(lengths)
        x = self.items(ids)
        for layer in self.layers:
            x = layer(x, offsets)
        scores = torch.einsum("nd,ncd->nc", F.normalize(x, dim=-1), F.normalize(self.items(targets), dim=-1))
        return F.cross_entropy(scores.float() / 0.05, torch.zeros(len(ids), dtype=torch.int64, device=ids.device))


def batch(step: int, rank: int) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(1000 * step + rank)
    lengths = torch.randint(1, LONGEST + 1, (8,), generator=draw)
    total = int(lengths.sum())
    ids = torch.randint(0, ITEMS, (total,), generator=draw)
    right = (ids * 7 + 3) % ITEMS
    return [ids, lengths, torch.cat([right[:, None], torch.randint(0, ITEMS, (total, NEGATIVES), generator=draw)], 1)]


def main(kind: str, precision: str, steps: int, file: Path) -> None:
    if kind == "cuda":
        from torch_npu.contrib import transfer_to_npu  # noqa: F401
    import fbgemm_gpu  # noqa: F401

    rank = int(os.environ["RANK"])
    device = torch.device("cuda", rank) if kind == "cuda" else torch.device("cpu")
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(Recommender().to(device), device_ids=[rank] if kind == "cuda" else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    half = torch.autocast(kind, dtype=torch.bfloat16) if precision == "bf16" else nullcontext()
    losses = []
    for step in range(steps):
        ids, lengths, targets = (x.to(device, non_blocking=True) for x in batch(step, rank))
        optimizer.zero_grad(set_to_none=True)
        with half:
            loss = model(ids, lengths, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert loss.device.type == ("npu" if kind == "cuda" else "cpu"), loss.device
    file.write_text("\n".join(map(str, losses)))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
