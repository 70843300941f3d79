"""Bad input names the argument, the expected and the given, and leaves tables alone."""

from collections.abc import Callable

import pytest
import torch
from embedding_cases import MEAN, NONE, SUM, Module, Optimizer, Tables

TABLES = Tables([5, 4], [3, 2])
Changes = dict[str, object]


@pytest.fixture(params=["cpu", "npu:0"])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def module(device: str, optimizer: str = "adagrad") -> Module:
    return Module(TABLES, Optimizer(optimizer), torch.ones(TABLES.elements, device=device))


def bags(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([0, 1, 2, 3], device=device), torch.tensor([0, 1, 2, 3, 4], device=device)


def integers(*values: int, dtype: torch.dtype = torch.int64) -> Callable[[str], torch.Tensor]:
    return lambda device: torch.tensor(values, dtype=dtype, device=device)


def lookup(device: str, changes: dict[str, object], optimizer: str = "adagrad", pooling: int = SUM) -> torch.Tensor:
    indices, offsets = bags(device)
    given = {name: value(device) if callable(value) else value for name, value in changes.items()}
    given = {"indices": indices, "offsets": offsets, **given}
    return module(device, optimizer).lookup(given.pop("indices"), given.pop("offsets"), pooling, **given)


# (changed arguments, message): what every device sees without looking into tensors.
SHAPES = [
    ({"offsets": integers(0, 2, 3, 4)}, r"offsets must have T\*B\+1 entries.*2 plus 1, got 4"),
    ({"offsets": lambda d: torch.empty(0, dtype=torch.int64, device=d)}, "offsets is empty"),
    ({"offsets": integers(0, 1, 2, 3, 4, dtype=torch.int16)}, "offsets has an unsupported dtype.*int32 or int64"),
    ({"indices": lambda d: torch.zeros(4, device=d)}, "indices has an unsupported dtype.*got Float"),
    ({"indices": lambda d: torch.zeros(2, 2, dtype=torch.int64, device=d)}, "indices must be 1-D.*got shape"),
    ({"weights_offsets": integers(0)}, "weights_offsets has the wrong size; expected 2 features.*got 1"),
    ({"hash_size_cumsum": integers(0, 5)}, "hash_size_cumsum has the wrong size; expected 3 entries, got 2"),
    ({"D_offsets": integers(0, dtype=torch.int32)}, "D_offsets has no feature"),
    ({"pooling_mode": 3}, r"pooling_mode must be 0 \(SUM\), 1 \(MEAN\) or 2 \(NONE\), got 3"),
    ({"pooling_mode": -1}, "pooling_mode must be 0"),
    ({"output_dtype": 2}, r"output_dtype is not supported; expected 0 \(float32\), 1 \(float16\) or 5"),
    ({"indice_weights": lambda d: torch.ones(3, device=d)}, "indice_weights has the wrong size; expected 4 .*got 3"),
    ({"indice_weights": lambda d: torch.ones(4, dtype=torch.float64, device=d)}, "indice_weights.*expected float32"),
    ({"dev_weights": lambda d: torch.ones(23, dtype=torch.float64, device=d)}, "weights has an unsupported dtype"),
    ({"dev_weights": lambda d: torch.ones(46, device=d)[::2]}, "weights must be contiguous because it is updated in"),
    ({"momentum1_dev": lambda d: torch.ones(46, device=d)[::2]}, "momentum1 must be contiguous because it is updated"),
    (
        {"momentum1_dev": lambda d: torch.ones(23, dtype=torch.float16, device=d)},
        "momentum1.*expected float32, got Half",
    ),
    ({"momentum1_offsets": integers(0)}, "momentum1_offsets has the wrong size; expected 2 features, got 1"),
    ({"B_offsets": integers(0, 2, 4)}, "B_offsets .*is not supported; expected None"),
    ({"apply_global_weight_decay": True}, "apply_global_weight_decay is not supported; expected False"),
    ({"is_dynamic": True}, "is_dynamic is not supported; expected False"),
]


@pytest.mark.parametrize(("changes", "message"), SHAPES, ids=[m[:30] for _, m in SHAPES])
def test_shapes_dtypes_and_options(device: str, changes: Changes, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        lookup(device, changes)


def test_options_of_some_optimizers(device: str) -> None:
    with pytest.raises(RuntimeError, match="use_rowwise_bias_correction is not supported"):
        lookup(device, {"use_rowwise_bias_correction": True}, "adam")
    out = lookup(device, {"iter": 0}, "adam")
    with pytest.raises(RuntimeError, match="iter must be positive for Adam; expected .* got 0"):
        out.sum().backward()


def test_weights_have_no_meaning_without_pooling(device: str) -> None:
    tables = Module(Tables([5], [3]), Optimizer("sgd"), torch.ones(15, device=device))
    with pytest.raises(RuntimeError, match="indice_weights has no meaning with pooling_mode NONE"):
        tables.lookup(*bags(device), NONE, indice_weights=torch.ones(4, device=device))


def test_devices() -> None:
    with pytest.raises(RuntimeError, match="expected indices on npu:0, got cpu"):
        lookup("npu:0", {"indices": torch.zeros(4, dtype=torch.int64)})
    with pytest.raises(RuntimeError, match="expected momentum1 on cpu, got npu:0"):
        lookup("cpu", {"momentum1_dev": torch.zeros(23).npu()})


# What only the contents of tensors tell: always on the CPU, on the NPU with MXREC_CHECK=1.
VALUES = [
    ({"offsets": integers(1, 1, 2, 3, 4)}, r"offsets\[0\] is wrong; expected 0, got 1"),
    ({"offsets": integers(0, 3, 2, 3, 4)}, r"offsets must not decrease; expected offsets\[2\] >= 3, got 2"),
    ({"offsets": integers(0, 1, 2, 3, 5)}, r"offsets\[4\] differs from the number of indices; expected 4, got 5"),
    ({"offsets": integers(0, 1, 2, 3, 3)}, r"offsets\[4\] differs from the number of indices; expected 4, got 3"),
    ({"indices": integers(0, 1, 2, 4)}, "Index 3 is out of bounds: 4, range 0 to 4"),
    ({"indices": integers(0, -1, 2, 3)}, "Index 1 is out of bounds: -1, range 0 to 5"),
    ({"indices": integers(0, 1, 9999999, 2**40)}, "Index 2 is out of bounds: 9999999, range 0 to 4"),
    ({"total_D": 6}, "total_D differs from D_offsets; expected 5, got 6"),
    ({"max_D": 2}, "max_D is too small; expected at least 3 as feature 0 has, got 2"),
    ({"D_offsets": integers(0, 3, 3, dtype=torch.int32), "total_D": 3}, "D_offsets must increase"),
    ({"D_offsets": integers(1, 3, 5, dtype=torch.int32)}, "D_offsets must start with 0, got 1"),
    ({"weights_offsets": integers(0, 99)}, r"weights_offsets\[1\] is outside weights; expected 0 to 23, got 99"),
    ({"weights_offsets": integers(0, 20)}, "weights is too small; expected at least 28 elements for feature 1, got 23"),
    ({"hash_size_cumsum": integers(0, 5, 4)}, r"hash_size_cumsum\[1\] is out of order; expected 0 to 4, got 5"),
    ({"pooling_mode": NONE}, "pooling_mode NONE needs equal embedding dims; expected 3 as feature 0 has, got 2"),
    ({"weights_placements": integers(0, 2, dtype=torch.int32)}, r"weights_placements\[1\] is not supported; .*got 2"),
]


@pytest.mark.parametrize(("changes", "message"), VALUES, ids=[m[:30] for _, m in VALUES])
def test_values(monkeypatch: pytest.MonkeyPatch, device: str, changes: Changes, message: str) -> None:
    if device != "cpu":
        monkeypatch.setenv("MXREC_CHECK", "1")
    with pytest.raises(RuntimeError, match=message):
        lookup(device, changes)


def backward(tables: Module, grad: torch.Tensor, **changes: object) -> None:
    indices, offsets = bags(str(tables.weights.device))
    head = tables.head()
    given = {
        "grad_output": grad,
        "weights": tables.weights,
        "indices": indices,
        "offsets": offsets,
        "pooling_mode": SUM,
        "indice_weights": None,
        "feature_requires_grad": None,
        "weights_gradient": False,
        "max_gradient": -1.0,
        "optimizer": 1,
        "momentum1": tables.momentum1,
        "momentum1_offsets": head["weights_offsets"],
        "momentum2": None,
        "momentum2_offsets": None,
        "learning_rate": 0.1,
        **{
            name: head[name]
            for name in ("weights_offsets", "D_offsets", "max_D", "hash_size_cumsum", "total_hash_size_bits")
        },
        **changes,
    }
    torch.ops.mxrec.embedding_update(**given)


# A fault that the forward pass did not see must not change a table either.
@pytest.mark.parametrize(
    ("grad", "changes", "message"),
    [
        ((3, 5), {}, r"grad_output has the wrong shape; expected \[2, D\], got \[3, 5\]"),
        ((2, 5), {"weights_gradient": True}, "indice_weights is missing"),
        ((2, 5), {"optimizer": 7}, "optimizer is unknown; expected one of .*, got 7"),
        ((2, 5), {"momentum1": None}, "momentum1 is missing; expected the optimizer's state"),
        ((2, 5), {"feature_requires_grad": integers(1, 1, 1)}, "feature_requires_grad has the wrong size; expected 2"),
    ],
)
def test_backward(device: str, grad: tuple[int, ...], changes: Changes, message: str) -> None:
    tables = module(device)
    given = {name: value(device) if callable(value) else value for name, value in changes.items()}
    with pytest.raises(RuntimeError, match=message):
        backward(tables, torch.ones(grad, device=device), **given)
    assert (tables.weights == 1).all() and (tables.momentum1 == 0).all()


@pytest.mark.parametrize(
    ("grad", "changes", "message"),
    [
        ((2, 6), {}, "total_D differs from D_offsets; expected 5, got 6"),
        ((2, 5), {"indices": integers(0, 1, 2, 4)}, "Index 3 is out of bounds: 4, range 0 to 4"),
        ((2, 5), {"offsets": integers(0, 3, 2, 3, 4)}, "offsets must not decrease"),
        ((2, 5), {"momentum1": lambda d: torch.zeros(22, device=d)}, "momentum1 is too small; expected at least 23"),
        ((2, 5), {"hash_size_cumsum": integers(0, 0, 0)}, "Index 0 is out of bounds: 0, range 0 to 0"),
        ((2, 5), {"hash_size_cumsum": integers(0, 0, 4)}, "features 0 and 1 the same rows; expected the width 3"),
    ],
)
def test_values_in_backward(monkeypatch, device: str, grad: tuple[int, ...], changes: Changes, message: str) -> None:
    if device != "cpu":
        monkeypatch.setenv("MXREC_CHECK", "1")
    tables = module(device)
    given = {name: value(device) if callable(value) else value for name, value in changes.items()}
    with pytest.raises(RuntimeError, match=message):
        backward(tables, torch.ones(grad, device=device), **given)
    assert (tables.weights == 1).all() and (tables.momentum1 == 0).all()


def test_unchecked_indices_are_safe_on_the_npu() -> None:
    """Without MXREC_CHECK an index outside its table contributes nothing and updates nothing."""
    tables = module("npu:0")
    indices = torch.tensor([0, -1, 2**40, 3]).npu()
    out = tables.lookup(indices, bags("npu:0")[1], MEAN)
    assert out.cpu().tolist() == [[1, 1, 1, 0, 0], [0, 0, 0, 1, 1]]
    out.sum().backward()
    changed = (tables.weights.cpu() != 1).nonzero().flatten().tolist()
    assert changed == [0, 1, 2, 21, 22]


def test_empty_lookups(device: str) -> None:
    empty = torch.empty(0, dtype=torch.int64, device=device)
    tables = module(device)
    out = tables.lookup(empty, torch.zeros(1, dtype=torch.int64, device=device), SUM)
    assert out.shape == (0, 5)
    out = tables.lookup(empty, torch.zeros(5, dtype=torch.int64, device=device), MEAN)
    assert out.tolist() == [[0] * 5] * 2
    out.sum().backward()
    assert (tables.weights == 1).all()
