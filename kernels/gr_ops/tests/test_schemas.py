"""Registration: schemas, overloads, Meta and fake kernels."""

import pytest
import torch

DEVICE = "npu:0"
OPERATORS = [
    "jagged_to_padded_dense",
    "jagged_to_padded_dense_forward",
    "jagged_to_padded_dense_backward",
    "dense_to_jagged",
    "dense_to_jagged_forward",
    "dense_to_jagged_backward",
    "asynchronous_complete_cumsum",
    "asynchronous_inclusive_cumsum",
    "asynchronous_exclusive_cumsum",
]


def offsets(device: str = DEVICE) -> list[torch.Tensor]:
    return [torch.tensor([0, 2, 5, 6]).to(device)]


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(shape).to(DEVICE).requires_grad_()


@pytest.mark.parametrize("name", OPERATORS)
def test_both_namespaces_have_one_schema(name: str) -> None:
    schemas = [getattr(getattr(torch.ops, space), name).default._schema for space in ("fbgemm", "mxrec")]
    texts = [str(schema).split("::", 1)[1] for schema in schemas]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("space", ["fbgemm", "mxrec"])
def test_keys(name: str, space: str) -> None:
    for key in ("PrivateUse1", "AutogradPrivateUse1", "Meta"):
        assert torch._C._dispatch_has_computed_kernel_for_dispatch_key(f"{space}::{name}", key), key


def test_overloads() -> None:
    values = torch.arange(1.0, 7.0).to(DEVICE)
    expected = [[1, 2], [3, 4], [6, 0]]
    for space in (torch.ops.fbgemm, torch.ops.mxrec):
        for name in ("jagged_to_padded_dense", "jagged_to_padded_dense_forward"):
            packet = getattr(space, name)
            assert packet(values, offsets(), 2).tolist() == packet(values, offsets(), [2]).tolist() == expected
            assert packet.v1(values, offsets(), 2).tolist() == expected
    assert torch.ops.mxrec.jagged_to_padded_dense.v2(values, offsets(), [2]).tolist() == expected
    assert torch.ops.mxrec.dense_to_jagged_backward.v1(values, offsets(), 2, 0.0).tolist() == expected
    dense = torch.ops.mxrec.jagged_to_padded_dense(values, offsets(), [3])
    jagged, returned = torch.ops.mxrec.dense_to_jagged_forward.pair(dense, offsets())
    assert jagged.tolist() == values.tolist() and len(returned) == 1


def test_overload_is_differentiable() -> None:
    values = torch.arange(1.0, 7.0).to(DEVICE).requires_grad_()
    torch.ops.fbgemm.jagged_to_padded_dense(values, offsets(), 2).sum().backward()
    assert values.grad.tolist() == [1, 1, 1, 1, 0, 1]


def test_unknown_total_length_is_a_dynamic_size() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        dense, fakes = mode.from_tensor(torch.zeros(3, 4, 2)), [mode.from_tensor(torch.tensor([0, 2, 5, 6]))]
        values = torch.ops.mxrec.dense_to_jagged_forward(dense, fakes)
        assert isinstance(values.shape[0], torch.SymInt) and values.shape[1] == 2


@pytest.mark.parametrize("space", ["fbgemm", "mxrec"])
def test_meta_shapes(space: str) -> None:
    ops = getattr(torch.ops, space)
    on_meta = [torch.empty(4, dtype=torch.int64, device="meta")]
    values = torch.empty(6, 2, 5, dtype=torch.float16, device="meta")
    dense = ops.jagged_to_padded_dense(values, on_meta, [7])
    assert dense.shape == (3, 7, 2, 5) and dense.dtype == torch.float16 and dense.device.type == "meta"
    assert ops.dense_to_jagged_forward(dense, on_meta, 9).shape == (9, 2, 5)
    assert ops.jagged_to_padded_dense(values[:, 0, 0], on_meta, [7]).shape == (3, 7)
    assert ops.asynchronous_complete_cumsum(torch.empty(2, 3, device="meta")).shape == (2, 4)
    with pytest.raises(RuntimeError, match="max_lengths has 2 entries"):
        ops.jagged_to_padded_dense(values, on_meta, [7, 7])
