"""The sparse operators one after the other under torch.compile and torch.export; by itself each is in
test_every_operator.py."""

import pytest
import torch


def lengths() -> torch.Tensor:
    return torch.tensor([[2, 3], [1, 4], [0, 2]])


def permute() -> torch.Tensor:
    return torch.tensor([2, 0, 0])


def bounds() -> tuple[object, ...]:
    tensors = [torch.tensor([5, 3]), torch.tensor([0, 5, 2, 3, 2]), torch.tensor([0, 2, 3, 4, 5])]
    return (*tensors, 2, torch.zeros(1, dtype=torch.int64))


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
