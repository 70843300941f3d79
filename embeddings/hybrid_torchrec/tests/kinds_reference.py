"""What each number of an optimizer means, said by PyTorch's own optimizers, and NumPy's formulas where it has none."""

import torch
from hybrid_torchrec import OptimizerSpec
from reference import ReferenceTable

LR, DECAY, STEPS, ROWS, DIM = 0.05, 0.1, 4, 6, 5
NAMES = {0: "sgd", 1: "adagrad", 2: "rowwise_adagrad", 3: "adam", 4: "adamw", 5: "lamb", 6: "lion"}
OF_TORCH = {0: torch.optim.SGD, 1: torch.optim.Adagrad, 3: torch.optim.Adam, 4: torch.optim.AdamW}
MOMENTS = {0: 0, 1: 1, 2: 1, 3: 2, 4: 2, 5: 2, 6: 1}


def spec_of(number: int) -> OptimizerSpec:
    return OptimizerSpec(kind=NAMES[number], lr=LR, weight_decay=DECAY)


def first_rows() -> torch.Tensor:
    """(ROWS, DIM); row 0, a table's default row, takes no step."""
    return torch.randn(ROWS, DIM, generator=torch.Generator().manual_seed(0))


def gradients() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(ROWS - 1, DIM, generator=generator) for _ in range(STEPS)]


def after_steps(number: int) -> torch.Tensor:
    """first_rows() when rows 1 to ROWS - 1 have taken a step with each of gradients(); (ROWS, DIM) float64."""
    rows = first_rows().double()
    if number in OF_TORCH:
        trained = torch.nn.Parameter(rows[1:].clone())
        optimizer = OF_TORCH[number]([trained], lr=LR, weight_decay=DECAY)
        for gradient in gradients():
            trained.grad = gradient.double()
            optimizer.step()
        rows[1:] = trained.detach()
        return rows
    reference = ReferenceTable(rows.numpy(), spec_of(number))
    slots = torch.arange(1, ROWS).numpy()
    for gradient in gradients():
        reference.update(slots, gradient.double().numpy())
    return torch.from_numpy(reference.w)


def pretending(name: str) -> OptimizerSpec:
    """A spec of a kind that nobody knows, as of a version that has one more."""
    spec = OptimizerSpec(kind="adam")
    object.__setattr__(spec, "kind", name)
    return spec
