"""The norm of gradients that lie in pieces over processes, as FSDP leaves them."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.debug import CommDebugMode

from gr_model.runtime.world import World
from gr_model.training import gradients
from gr_model.training.pieces import Pieces


def in_pieces(mesh: DeviceMesh, count: int) -> list[nn.Parameter]:
    made = []
    for number in range(count):
        piece = torch.full((3, 2), number + 1.0)
        weight = nn.Parameter(DTensor.from_local(torch.zeros(3, 2), mesh, [Shard(0)]))
        weight.grad = DTensor.from_local(piece, mesh, [Shard(0)])
        made.append(weight)
    return made


def test_pieces_are_summed_up_once_for_all_gradients(two_processes: DeviceMesh) -> None:
    weights = in_pieces(two_processes, 5)
    pieces = Pieces(weights)
    pieces.refresh()
    with CommDebugMode() as collectives:
        total = gradients.norm(pieces, 1.0, World(size=2))
    assert collectives.get_total_counts() == 1
    assert type(total) is torch.Tensor
    torch.testing.assert_close(total, torch.tensor((6 * (1 + 4 + 9 + 16 + 25.0)) ** 0.5))
    for number, weight in enumerate(weights):
        torch.testing.assert_close(weight.grad.to_local(), torch.full((3, 2), number + 1.0) / total)


def test_whole_weights_are_summed_up_by_nobody() -> None:
    weights = [nn.Parameter(torch.zeros(3, 2)), nn.Parameter(torch.zeros(2))]
    for weight in weights:
        weight.grad = torch.full_like(weight, 2.0)
    pieces = Pieces(weights)
    assert pieces.parameters[0] is weights[0] and not pieces.sharded
    pieces.refresh()
    torch.testing.assert_close(gradients.norm(pieces, 0.0, World(size=2)), torch.tensor(32.0**0.5))
    pieces.zero_grad()
    assert all(weight.grad is None for weight in weights)
