"""What the numbers of optimizers mean to mxrec.embedding_update on each device, said by PyTorch's own optimizers."""

import pytest
import torch

LR, EPS, DECAY, STEPS, ROWS, DIM = 0.05, 1e-8, 0.1, 4, 6, 8
OF_TORCH = {  # the settings of its own that PyTorch's optimizer needs
    0: (torch.optim.SGD, {}),
    1: (torch.optim.Adagrad, {"eps": EPS}),
    3: (torch.optim.AdamW, {"eps": EPS, "weight_decay": DECAY}),  # decays apart from the gradient
}
ROWWISE = 2
KNOWN = r"0 \(sgd\), 1 \(adagrad\), 2 \(rowwise_adagrad\), 3 \(adam\)"


@pytest.fixture(params=["cpu", "npu:0"])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def drawn(seed: int) -> torch.Tensor:
    return torch.randn(ROWS, DIM, generator=torch.Generator().manual_seed(seed))


def after_steps(number: int) -> torch.Tensor:
    """(ROWS, DIM) float64. Row-wise Adagrad is Adagrad of a single column, with the root of the mean square."""
    rows = torch.nn.Parameter(drawn(0).double())
    if number == ROWWISE:
        total = torch.zeros(ROWS, 1, dtype=torch.float64)
        for step in range(STEPS):
            gradient = drawn(1 + step).double()
            total += gradient.square().mean(1, keepdim=True)
            rows.data -= LR * gradient / (total.sqrt() + EPS)
        return rows.data
    optimizer_class, settings = OF_TORCH[number]
    optimizer = optimizer_class([rows], lr=LR, **settings)
    for step in range(STEPS):
        rows.grad = drawn(1 + step).double()
        optimizer.step()
    return rows.data


def step_by_number(number: int, device: str, weights: torch.Tensor, moments: list[torch.Tensor], step: int) -> None:
    start = torch.zeros(1, dtype=torch.int64, device=device)
    first, second = [*moments, None, None][:2]
    torch.ops.mxrec.embedding_update(
        drawn(1 + step).to(device),
        weights,
        start,
        torch.tensor([0, DIM], dtype=torch.int32, device=device),
        DIM,
        torch.tensor([0, ROWS], device=device),
        3,
        torch.arange(ROWS, device=device),
        torch.arange(ROWS + 1, device=device),
        0,
        None,
        None,
        False,
        -1.0,
        number,
        first,
        None if first is None else start,
        second,
        None if second is None else start,
        LR,
        EPS,
        0.9,
        0.999,
        DECAY if number == 3 else 0.0,
        0,
        0.0,
        1 + step,
    )


@pytest.mark.parametrize(("number", "moments"), [(0, []), (1, [DIM]), (ROWWISE, [1]), (3, [DIM, DIM])])
def test_a_number_means_the_same_on_every_device(number: int, moments: list[int], device: str) -> None:
    weights = drawn(0).to(device).flatten()
    state = [torch.zeros(ROWS * width, device=device) for width in moments]
    for step in range(STEPS):
        step_by_number(number, device, weights, state, step)
    torch.testing.assert_close(weights.view(ROWS, DIM).cpu().double(), after_steps(number), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("number", [4, -1, 2**33])
def test_an_unknown_number_is_refused_with_the_known_ones(number: int, device: str) -> None:
    weights = drawn(0).to(device).flatten()
    state = [torch.zeros(ROWS * DIM, device=device) for _ in range(2)]
    with pytest.raises(RuntimeError, match=f"optimizer is unknown; expected one of {KNOWN}, got {number}$"):
        step_by_number(number, device, weights, state, 0)
    assert torch.equal(weights.cpu(), drawn(0).flatten())
