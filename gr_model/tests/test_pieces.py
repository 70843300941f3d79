"""FSDP's pieces as plain tensors: an optimizer over them does what PyTorch's own does over the DTensors."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from gr_model.config import TrainConfig
from gr_model.training import optimizer
from gr_model.training.pieces import Pieces

SHAPES = ((5, 4), (3,), (1, 2))
NAMES = ("table", "norm", "bias")


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    """Two processes, of which one is here."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield init_device_mesh("cpu", (2,))
    dist.destroy_process_group()


def weights_of(mesh: DeviceMesh, seed: int) -> list[nn.Parameter]:
    """Of uneven pieces: the other process has one row less."""
    torch.manual_seed(seed)
    made = []
    for shape in SHAPES:
        whole = torch.Size((2 * shape[0] - 1, *shape[1:]))
        stride = torch.empty(whole, device="meta").stride()
        local = torch.randn(shape)
        piece = DTensor.from_local(local, mesh, [Shard(0)], run_check=False, shape=whole, stride=stride)
        made.append(nn.Parameter(piece))
    return made


def set_gradients(weights: list[nn.Parameter], step: int) -> None:
    torch.manual_seed(100 + step)
    for weight in weights:
        local = torch.randn(weight.to_local().shape)
        weight.grad = DTensor.from_local(
            local, weight.device_mesh, [Shard(0)], run_check=False, shape=weight.shape, stride=weight.stride()
        )


def local(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().to_local() for tensor in tensors]


def test_adamw_over_pieces_is_adamw_over_dtensors(mesh: DeviceMesh) -> None:
    config = TrainConfig(weight_decay=0.3, lr=0.1)
    weights, expected = weights_of(mesh, 1), weights_of(mesh, 1)
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


def test_a_state_goes_on_where_it_was_taken(mesh: DeviceMesh) -> None:
    config = TrainConfig(lr=0.1)
    weights = weights_of(mesh, 1)
    pieces = Pieces(weights)
    first, average = optimizer.adamw(pieces.parameters, config), optimizer.MovingAverage(pieces, decay=0.5)
    again = weights_of(mesh, 2)
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
    for number in (1, 2):
        step(number, weights, pieces, first, average)
        step(number, again, other, second, other_average)
    torch.testing.assert_close(local(again), local(weights), rtol=0, atol=0)
    trained = [tensor.clone() for tensor in local(again)]
    with average.in_place(), other_average.in_place():
        torch.testing.assert_close(local(again), local(weights), rtol=0, atol=0)
        assert not any(torch.equal(a, b) for a, b in zip(local(again), trained))
    torch.testing.assert_close(local(again), trained, rtol=0, atol=0)
    with pytest.raises(ValueError, match="of other parameters: norm"):
        optimizer.load_state(second, NAMES, other, {name: state[0][name] for name in ("table", "bias")})
