"""fbgemm's CPU kernels are replaced by ours, and can be kept."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

Run = Callable[..., object]
HERE = Path(__file__).resolve().parent


def test_equal_to_fbgemms_own_kernels(fresh_process: Run) -> None:
    script = f"import runpy; runpy.run_path({str(HERE / 'stock_comparison.py')!r}, run_name='__main__')"
    # One thread: thousands of small calls, which threads that wait for each other would slow down.
    variables = {"MXREC_NO_FBGEMM_OVERRIDE": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1"}
    result = fresh_process(script, **variables)
    assert result.stdout.strip().endswith("stock ok"), result.stderr


def test_the_variable_keeps_fbgemms_kernels(fresh_process: Run) -> None:
    script = """
        import torch, gr_ops
        offsets = [torch.tensor([0, 2, 5, 6])]
        try:
            torch.ops.fbgemm.dense_to_jagged(torch.zeros(3, 10), offsets)
        except RuntimeError as error:
            assert "unsupported number of jagged dim 0" in str(error), error
        else:
            raise AssertionError("fbgemm_gpu accepts it")
        assert torch.ops.mxrec.dense_to_jagged(torch.zeros(3, 10), offsets)[0].shape == (6,)
        assert torch.ops.fbgemm.gather_for_rank1(torch.ones(3), torch.tensor([2])).tolist() == [1]
        print('kept ok')
    """
    result = fresh_process(script, MXREC_NO_FBGEMM_OVERRIDE="1", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.stdout.strip().endswith("kept ok"), result.stderr


@pytest.mark.parametrize("order", ["fbgemm_gpu, gr_ops", "gr_ops, fbgemm_gpu"])
def test_the_replacement_is_silent(fresh_process: Run, order: str) -> None:
    script = f"""
        import torch, {order}
        dense = torch.ones(3, 10, requires_grad=True)
        values, _ = torch.ops.fbgemm.dense_to_jagged(dense, [torch.tensor([0, 2, 5, 6])])
        values.sum().backward()
        assert dense.grad.sum().item() == 6
        print('silent ok')
    """
    result = fresh_process(script, MXREC_NO_FBGEMM_OVERRIDE=None, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.stdout.strip().endswith("silent ok") and result.stderr == "", result.stderr


def test_without_fbgemm_the_cpu_kernels_are_there_whatever_the_variable_says(fresh_process: Run) -> None:
    script = """
        import importlib.util, sys
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name, package=None: None if name == 'fbgemm_gpu' else find(name, package)
        import torch, gr_ops
        assert 'fbgemm_gpu' not in sys.modules
        x = torch.ones(3, 10, requires_grad=True)
        torch.ops.fbgemm.dense_to_jagged(x, [torch.tensor([0, 2, 5, 6])])[0].sum().backward()
        assert x.grad.sum().item() == 6
        lengths, values, _ = torch.ops.fbgemm.permute_2D_sparse_data(
            torch.tensor([1, 0]), torch.tensor([2, 1]), torch.tensor([7, 8, 9]))
        assert values.tolist() == [9, 7, 8]
        print('no fbgemm ok')
    """
    result = fresh_process(script, MXREC_NO_FBGEMM_OVERRIDE="1", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.stdout.strip().endswith("no fbgemm ok"), result.stderr


def test_arguments_of_another_release_of_fbgemm_are_found_by_name(fresh_process: Run) -> None:
    """As fbgemm_gpu 1.3 has bounds_check_indices: one argument more. And `weights` is moved, and b_t_map left out."""
    script = """
        import importlib.util
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name, package=None: None if name == 'fbgemm_gpu' else find(name, package)
        import torch
        fbgemm = torch.library.Library('fbgemm', 'FRAGMENT')
        fbgemm.define('bounds_check_indices(Tensor rows_per_table, Tensor(a!) indices, Tensor(b!) offsets, '
            'int bounds_check_mode, Tensor(c!) warning, Tensor? B_offsets=None, SymInt max_B=-1, '
            'Tensor(d!)? weights=None, int info_B_num_bits=-1, int info_B_mask=-1, int bounds_check_version=1, '
            'bool prefetch_pipeline=False) -> ()')
        import gr_ops
        op, rows, offsets = torch.ops.fbgemm.bounds_check_indices, torch.tensor([5, 3]), torch.tensor([0, 2, 3, 4, 5])
        indices, weights, warning = torch.tensor([4, 5, 0, -1, 2]), torch.ones(5), torch.zeros(1, dtype=torch.int64)
        op(rows, indices, offsets, 2, warning, weights=weights)
        assert indices.tolist() == [4, 0, 0, -1, 2], indices  # -1 is a row that was pruned
        op(rows, indices, offsets, 2, warning, prefetch_pipeline=False)
        for wrong, expected in [
            ({'prefetch_pipeline': True}, 'has no argument prefetch_pipeline; leave it out'),
            ({'weights': weights[:3]}, 'weights size 3'),
        ]:
            try:
                op(rows, indices, offsets, 2, warning, **wrong)
            except RuntimeError as error:
                assert expected in str(error), error
            else:
                raise AssertionError(f'{wrong} was dropped')
        print('by name ok')
    """
    result = fresh_process(script, MXREC_NO_FBGEMM_OVERRIDE=None, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.stdout.strip().endswith("by name ok"), result.stderr


@pytest.mark.parametrize("offsets", [[0, 5, 2, 6], [0, 2, 5, 7], [-1, 2, 5, 6]])
def test_the_contents_of_offsets_are_checked_on_the_cpu(offsets: list[int]) -> None:
    with pytest.raises(RuntimeError, match="off"):
        torch.ops.fbgemm.jagged_to_padded_dense(torch.zeros(6, 2), [torch.tensor(offsets)], [3])


@pytest.mark.parametrize("shape", [(100_000,), (16384 * 3 + 1,), (3, 40_000)])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int16, torch.float32, torch.float64, torch.bfloat16])
def test_the_number_of_threads_does_not_change_a_sum(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = (torch.rand(shape) * 100 - 20).to(dtype)
    threads = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2, 4):
            torch.set_num_threads(count)
            results.append(torch.ops.mxrec.asynchronous_complete_cumsum(x))
    finally:
        torch.set_num_threads(threads)
    assert results[0].equal(results[1]) and results[0].equal(results[2])
    expected = x.cumsum(-1, dtype=dtype if not dtype.is_floating_point else torch.float64)
    if dtype.is_floating_point:
        torch.testing.assert_close(
            results[0][..., 1:].double(), expected, rtol=1e-2 if dtype == torch.bfloat16 else 1e-6, atol=1e-5
        )
    else:
        assert results[0][..., 1:].equal(expected)


def test_large_tensors_are_shared_by_threads() -> None:
    """Shares begin inside rows and lines; one row is longer than all others together."""
    lengths = torch.tensor([3, 0, 50_000, 1, 0, 700])
    offsets = [torch.ops.mxrec.asynchronous_complete_cumsum(lengths)]
    values = torch.randn(int(lengths.sum()), 3)
    dense = torch.ops.mxrec.jagged_to_padded_dense(values, offsets, [40_000], 9.0)
    for b, (start, end) in enumerate(zip(offsets[0], offsets[0][1:])):
        count = min(int(end - start), 40_000)
        assert dense[b, :count].equal(values[start : start + count]) and (dense[b, count:] == 9).all()
    back = torch.ops.mxrec.dense_to_jagged(dense, offsets)[0]
    kept = values.clone()
    kept[3 + 40_000 : 3 + 50_000] = 0
    assert back.equal(kept)
