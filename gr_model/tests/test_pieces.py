"""FSDP's pieces as plain tensors: an optimizer over them does what PyTorch's own does over the DTensors."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

from gr_model.config import TrainConfig
from gr_model.training import optimizer
from gr_model.training.pieces import Pieces

SHAPES = {"table": (9, 4), "norm": (5,), "bias": (1, 2)}  # uneven: the second process has nothing of the last
NAMES = list(SHAPES)
on_both = pytest.mark.parametrize("two_processes", [0, 1], indirect=True)


def in_pieces(whole: torch.Tensor, mesh: DeviceMesh) -> DTensor:
    """This process's piece of `whole`, as FSDP has it."""
    pieces = [*whole.chunk(2), whole[:0]]
    local = pieces[mesh.get_local_rank()].clone()
    return DTensor.from_local(local, mesh, [Shard(0)], run_check=False, shape=whole.shape, stride=whole.stride())


def weights_of(mesh: DeviceMesh, seed: int) -> list[nn.Parameter]:
    torch.manual_seed(seed)
    return [nn.Parameter(in_pieces(torch.randn(shape), mesh)) for shape in SHAPES.values()]


def set_gradients(weights: list[nn.Parameter], step: int) -> None:
    torch.manual_seed(100 + step)
    for weight in weights:
        weight.grad = in_pieces(torch.randn(weight.shape), weight.device_mesh)


def local(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().to_local() for tensor in tensors]


@on_both
def test_adamw_over_pieces_is_adamw_over_dtensors(two_processes: DeviceMesh) -> None:
    config = TrainConfig(weight_decay=0.3, lr=0.1)
    weights, expected = weights_of(two_processes, 1), weights_of(two_processes, 1)
    pieces = Pieces(weights)
    of_pieces = optimizer.adamw(pieces.parameters, config)
    by_torch = torch.optim.AdamW(
        [{"params": [expected[0], expected[2]], "weight_decay": 0.3}, {"params": [expected[1]], "weight_decay": 0.0}],
        lr=0.1,
        betas=(config.beta1, config.beta2),
    )
    for step in range(4):
        for each in (weights, expected):
            set_gradients(each, step)
        pieces.refresh()
        of_pieces.step()
        by_torch.step()
        torch.testing.assert_close(local(weights), local(expected), rtol=1e-6, atol=1e-6)
    state = optimizer.state(of_pieces, NAMES, pieces)
    for name, weight, reference in zip(NAMES, weights, expected):
        kept = state[name]["exp_avg_sq"]
        assert isinstance(kept, DTensor) and kept.shape == weight.shape and kept.placements == weight.placements
        torch.testing.assert_close(kept.to_local(), by_torch.state[reference]["exp_avg_sq"].to_local())


@on_both
def test_a_state_goes_on_where_it_was_taken(two_processes: DeviceMesh) -> None:
    config = TrainConfig(lr=0.1)
    weights = weights_of(two_processes, 1)
    pieces = Pieces(weights)
    first, average = optimizer.adamw(pieces.parameters, config), optimizer.MovingAverage(pieces, decay=0.5)
    again = weights_of(two_processes, 2)
    other = Pieces(again)
    second, other_average = optimizer.adamw(other.parameters, config), optimizer.MovingAverage(other, decay=0.5)

    def step(number: int, weights: list[nn.Parameter], pieces: Pieces, own: torch.optim.Optimizer, average) -> None:
        set_gradients(weights, number)
        pieces.refresh()
        own.step()
        average.update()

    step(0, weights, pieces, first, average)
    state = copy.deepcopy((optimizer.state(first, NAMES, pieces), average.state(NAMES)))
    with torch.no_grad():
        for weight, source in zip(again, weights):  # FSDP may take other memory when it loads a state
            weight._local_tensor = source.to_local().clone()
    optimizer.load_state(second, NAMES, other, state[0])
    other_average.load_state(NAMES, state[1])
    with average.in_place(), other_average.in_place():  # before any step
        torch.testing.assert_close(local(again), local(weights), rtol=0, atol=0)
    for number in (1, 2):
        step(number, weights, pieces, first, average)
        step(number, again, other, second, other_average)
    torch.testing.assert_close(local(again), local(weights), rtol=0, atol=0)
    trained = [tensor.clone() for tensor in local(again)]
    with average.in_place(), other_average.in_place():
        torch.testing.assert_close(local(again), local(weights), rtol=0, atol=0)
        assert not any(torch.equal(a, b) for a, b in zip(local(again), trained) if a.numel())
    torch.testing.assert_close(local(again), trained, rtol=0, atol=0)
    with pytest.raises(ValueError, match="of other parameters: norm"):
        optimizer.load_state(second, NAMES, other, {name: state[0][name] for name in ("table", "bias")})
