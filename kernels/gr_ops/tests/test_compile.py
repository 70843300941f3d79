"""opcheck, torch.compile and torch.export of the operators on the CPU (spec/operators.md 1.2)."""

from collections.abc import Callable

import pytest
import torch

OFFSETS = [0, 2, 5, 6]


def offsets() -> list[torch.Tensor]:
    return [torch.tensor(OFFSETS)]


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(shape).requires_grad_()


def lengths() -> torch.Tensor:
    return torch.tensor([[2, 3], [1, 4], [0, 2]])


def permute() -> torch.Tensor:
    return torch.tensor([2, 0, 0])


def bounds() -> tuple[object, ...]:
    tensors = [torch.tensor([5, 3]), torch.tensor([0, 5, 2, 3, 2]), torch.tensor([0, 2, 3, 4, 5])]
    return (*tensors, 2, torch.zeros(1, dtype=torch.int64))


SAMPLES: dict[str, Callable[[], tuple[object, ...]]] = {
    "jagged_to_padded_dense": lambda: (leaf(6, 2), offsets(), [3], 1.0),
    "jagged_to_padded_dense_forward": lambda: (leaf(6), offsets(), [3]),
    "jagged_to_padded_dense_backward": lambda: (leaf(3, 4, 2), offsets(), 6),
    "dense_to_jagged_forward": lambda: (leaf(3, 4, 2), offsets(), 6),
    "dense_to_jagged_backward": lambda: (leaf(6, 2), offsets(), [3]),
    "asynchronous_complete_cumsum": lambda: (lengths(),),
    "asynchronous_inclusive_cumsum": lambda: (lengths(),),
    "asynchronous_exclusive_cumsum": lambda: (lengths()[0],),
    "permute_2D_sparse_data": lambda: (permute(), lengths(), leaf(12, 2), leaf(12), 12),
    "permute_1D_sparse_data": lambda: (permute(), lengths()[:, 1], leaf(9), None, 8),
    "permute_sparse_data_backward": lambda: (permute(), lengths(), leaf(12), 12),
    "gather_for_rank1": lambda: (leaf(5), torch.tensor([[4, 0], [2, 2]])),
    "index_select_for_rank1_backward": lambda: (leaf(3), leaf(5), torch.tensor([4, 0, 4])),
    "bounds_check_indices": bounds,
}


PERMUTATIONS = ["permute_2D_sparse_data", "permute_1D_sparse_data"]


@pytest.mark.parametrize("name", [n for n in SAMPLES if n not in PERMUTATIONS])
def test_opcheck(name: str) -> None:
    torch.library.opcheck(getattr(torch.ops.mxrec, name).default, SAMPLES[name]())


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", PERMUTATIONS)
def test_opcheck_of_the_permutations(name: str, known: bool) -> None:
    """Its AOT test adds float outputs into the sum of the lengths, which are integers: that one without gradients."""
    op = getattr(torch.ops.mxrec, name).default
    entries, counts, values, weights, total = SAMPLES[name]()
    for utilities, rows in (
        (("test_schema", "test_autograd_registration", "test_faketensor"), values),
        (("test_aot_dispatch_static", "test_aot_dispatch_dynamic")[not known :], values.detach().long()),
    ):
        sample = (entries, counts, rows, None if rows is not values else weights, total if known else None)
        torch.library.opcheck(op, sample, test_utils=utilities)


@pytest.mark.parametrize("name", [n for n in SAMPLES if n != "permute_sparse_data_backward"])
def test_opcheck_of_fbgemms_names(name: str) -> None:
    utilities = ("test_schema", "test_faketensor")
    torch.library.opcheck(getattr(torch.ops.fbgemm, name).default, SAMPLES[name](), test_utils=utilities)


def test_fake_kernels_take_what_the_real_ones_take() -> None:
    """fbgemm_gpu's own refuse 1-D lengths and flatten the values."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(t) for t in (permute(), torch.tensor([2, 3, 1]), torch.zeros(6, 4))]
        for ops in (torch.ops.fbgemm, torch.ops.mxrec):
            out_lengths, values, weights = ops.permute_2D_sparse_data(*fakes, None, 5)
            assert out_lengths.shape == (3,) and values.shape == (5, 4) and weights is None


def test_unknown_size_on_a_meta_tensor_is_refused() -> None:
    meta = [torch.empty(3, dtype=torch.int64, device="meta") for _ in range(2)]
    values = torch.empty(6, device="meta")
    assert torch.ops.mxrec.permute_2D_sparse_data(*meta, values, None, 4)[1].shape == (4,)
    with pytest.raises(Exception, match="meta Tensors"):
        torch.ops.mxrec.permute_2D_sparse_data(*meta, values)


class Pipeline(torch.nn.Module):
    """Lengths to offsets, permutation, padding, and back."""

    def __init__(self, ops: object) -> None:
        super().__init__()
        self.ops = ops

    def forward(self, entries: torch.Tensor, counts: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        counts, values, _ = self.ops.permute_2D_sparse_data(entries, counts, values, None, 12)
        starts = self.ops.asynchronous_complete_cumsum(counts.flatten())
        dense = self.ops.jagged_to_padded_dense(values, [starts], [4], 0.0)
        jagged, _ = self.ops.dense_to_jagged(dense * 2, [starts], 12)
        return jagged


def sample() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.tensor([2, 0, 1]), lengths(), torch.randn(12, 3)


@pytest.mark.parametrize("space", ["fbgemm", "mxrec"])
def test_compile_forward_and_backward(space: str) -> None:
    module = Pipeline(getattr(torch.ops, space))
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    for entries, counts, values in (sample(), sample()):
        results = []
        for run in (module, compiled):
            x = values.clone().requires_grad_()
            y = run(entries, counts, x)
            (y * torch.arange(1.0, 4.0)).sum().backward()
            results.append((y.detach(), x.grad))
        assert results[0][0].equal(results[1][0]) and results[0][1].equal(results[1][1])


@pytest.mark.parametrize("space", ["fbgemm", "mxrec"])
def test_export(space: str) -> None:
    module = Pipeline(getattr(torch.ops, space))
    program = torch.export.export(module, sample())
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert any("permute_2D_sparse_data" in name for name in names)
    arguments = sample()
    assert program.module()(*arguments).equal(module(*arguments))


def test_compile_of_the_gather_and_the_bounds_check() -> None:
    def step(rows, indices, starts, warning, x):
        torch.ops.mxrec.bounds_check_indices(rows, indices, starts, 2, warning)
        return torch.ops.mxrec.gather_for_rank1(x, indices)

    rows, indices, starts, _, warning = bounds()
    x = torch.arange(5.0).requires_grad_()
    y = torch.compile(step, backend="aot_eager", fullgraph=True)(rows, indices, starts, warning, x)
    assert indices.tolist() == [0, 0, 2, 0, 2] and y.tolist() == [0, 0, 2, 0, 2]
    y.sum().backward()
    assert x.grad.tolist() == [3, 0, 2, 0, 0]


def test_compile_with_sizes_that_only_the_data_knows() -> None:
    def step(entries, counts, values):
        return torch.ops.mxrec.permute_2D_sparse_data(entries, counts, values)[1] + 1

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
        entries, counts, values = sample()
        assert compiled(entries, counts, values).equal(step(entries, counts, values))
