"""A worked example by hand, through every entry point and optimizer."""

import pytest
import torch
from embedding_cases import MEAN, NONE, SUM, Module, Optimizer, Tables

TABLES = Tables([10], [4])
INDICES, OFFSETS = [1, 3, 5, 1, 9], [0, 3, 5]
OUT = {
    SUM: [[3.6, 3.9, 4.2, 4.5], [4.0, 4.2, 4.4, 4.6]],
    MEAN: [[1.2, 1.3, 1.4, 1.5], [2.0, 2.1, 2.2, 2.3]],
    NONE: [
        [0.4, 0.5, 0.6, 0.7],
        [1.2, 1.3, 1.4, 1.5],
        [2.0, 2.1, 2.2, 2.3],
        [0.4, 0.5, 0.6, 0.7],
        [3.6, 3.7, 3.8, 3.9],
    ],
}


@pytest.fixture(params=["cpu", "npu:0", "host"])
def place(request: pytest.FixtureRequest) -> tuple[str, bool]:
    """(device, whether through the entry point for CPU tensors)"""
    return ("cpu", True) if request.param == "host" else (request.param, False)


@pytest.fixture(params=["fbgemm", "mxrec"])
def space(request: pytest.FixtureRequest) -> str:
    return request.param


def module(place: tuple[str, bool], space: str, optimizer: str) -> Module:
    weights = (torch.arange(40, dtype=torch.float32) / 10).to(place[0])
    return Module(TABLES, Optimizer(optimizer), weights, space, place[1])


def step(tables: Module, pooling: int, grad: list[list[float]]) -> torch.Tensor:
    device = tables.weights.device
    indices, offsets = torch.tensor(INDICES, device=device), torch.tensor(OFFSETS, device=device)
    out = tables.lookup(indices, offsets, pooling)
    assert out.requires_grad
    out.backward(torch.tensor(grad, device=device))
    return out.detach().cpu()


GRAD = [[1.0] * 4, [2.0] * 4]


@pytest.mark.parametrize(
    ("optimizer", "pooling", "rows", "state"),
    [
        ("sgd", SUM, {1: 0.1, 3: 1.1, 5: 1.9, 9: 3.4}, {}),
        ("sgd", MEAN, {1: 0.26667, 3: 1.16667, 5: 1.96667, 9: 3.5}, {}),
        ("adagrad", SUM, {1: 0.3, 3: 1.1, 5: 1.9, 9: 3.5}, {1: 9.0, 3: 1.0, 5: 1.0, 9: 4.0}),
        ("adagrad", MEAN, {1: 0.3, 3: 1.1, 9: 3.5}, {1: 1.777778, 3: 0.111111, 5: 0.111111, 9: 1.0}),
        ("rowwise_adagrad", SUM, {1: 0.3, 3: 1.1, 9: 3.5}, {1: 9.0, 3: 1.0, 5: 1.0, 9: 4.0}),
        ("adam", SUM, {1: 0.3, 3: 1.1, 9: 3.5}, {1: 0.3, 3: 0.1, 5: 0.1, 9: 0.2}),
    ],
)
def test_step(place, space, optimizer: str, pooling: int, rows: dict[int, float], state: dict[int, float]) -> None:
    tables = module(place, space, optimizer)
    before = tables.weights.detach().cpu().view(10, 4)
    torch.testing.assert_close(step(tables, pooling, GRAD), torch.tensor(OUT[pooling]), atol=1e-5, rtol=1e-5)
    after = tables.weights.detach().cpu().view(10, 4)
    for row, first in rows.items():
        torch.testing.assert_close(after[row], first + torch.arange(4) / 10, atol=1e-5, rtol=0)
    momentum = tables.momentum1.cpu() if optimizer == "rowwise_adagrad" else tables.momentum1.cpu()[::4]
    for row, value in state.items():
        torch.testing.assert_close(momentum[row].item(), value, atol=1e-6, rtol=1e-6)
    for row in (0, 2, 4, 6, 7, 8):
        assert after[row].equal(before[row])
    assert tables.weights.grad is None


def test_second_step_of_adam(place, space) -> None:
    tables = module(place, space, "adam")
    step(tables, SUM, GRAD)
    torch.testing.assert_close(tables.momentum2.cpu()[[4, 36]], torch.tensor([0.009, 0.004]), atol=1e-8, rtol=1e-5)
    step(tables, SUM, [[-0.5] * 4, [-1.0] * 4])
    after = tables.weights.detach().cpu().view(10, 4)
    torch.testing.assert_close(after[1], torch.tensor([0.273366, 0.373366, 0.473366, 0.573366]), atol=1e-6, rtol=0)
    torch.testing.assert_close(after[9], torch.tensor([3.473366, 3.573366, 3.673366, 3.773366]), atol=1e-6, rtol=0)
    assert tables.momentum1.cpu()[[4, 36]].tolist() == pytest.approx([0.12, 0.08], abs=1e-6)
    assert tables.momentum2.cpu()[[4, 36]].tolist() == pytest.approx([0.011241, 0.004996], abs=1e-6)


def test_rows_without_pooling(place, space) -> None:
    tables = module(place, space, "sgd")
    torch.testing.assert_close(step(tables, NONE, [[1.0] * 4] * 5), torch.tensor(OUT[NONE]))
    torch.testing.assert_close(tables.weights.detach().cpu().view(10, 4)[1], torch.tensor([0.2, 0.3, 0.4, 0.5]))


@pytest.mark.parametrize("device", ["cpu", "npu:0"])
def test_helpers_of_the_device(space, device: str) -> None:
    ops = getattr(torch.ops, space)
    tables = module((device, False), space, "adagrad")
    head = tables.head()
    empty, no_locations = torch.empty(0, device=device), torch.empty(0, dtype=torch.int32, device=device)
    common = [head[name] for name in ("weights_placements", "weights_offsets", "D_offsets")]
    bags = [torch.tensor(INDICES, device=device), torch.tensor(OFFSETS, device=device)]
    out = ops.split_embedding_codegen_forward_unweighted_cuda(
        tables.weights, empty, empty, *common, 4, 4, *bags, SUM, no_locations, no_locations, 0, False
    )
    torch.testing.assert_close(out.cpu(), torch.tensor(OUT[SUM]), atol=1e-5, rtol=1e-5)
    ops.split_embedding_backward_codegen_adagrad_unweighted_exact_cuda(
        torch.tensor(GRAD, device=device),
        tables.weights,
        empty,
        empty,
        *common,
        4,
        True,
        head["hash_size_cumsum"],
        4,
        *bags,
        SUM,
        no_locations,
        0,
        32,
        False,
        26,
        0x3FFFFFF,
        False,
        False,
        tables.momentum1,
        empty,
        common[0],
        common[1],
        torch.tensor([0.1]),
        1e-8,
    )
    torch.testing.assert_close(tables.weights.cpu().view(10, 4)[1], torch.tensor([0.3, 0.4, 0.5, 0.6]))
    assert tables.momentum1.cpu()[::4].tolist() == pytest.approx([0, 9, 0, 1, 0, 1, 0, 0, 0, 4])
