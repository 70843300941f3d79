"""fbgemm's names that are composites on the NPU: against fbgemm_gpu's CPU kernels, with both of the twin's ATen."""

import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import composite_cases as cases
import pytest
import torch
from gr_ops import fbgemm

ops = torch.ops.fbgemm
MODES = ("override", "aclnn")
PROGRAM = Path(__file__).with_name("composites_program.py")


@functools.cache
def outcome(mode: str) -> tuple[dict[str, dict[str, list[str]]], str]:
    """What the program found, and what it and torch_npu said meanwhile."""
    env = {**os.environ, "TWIN_ATEN": mode, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run([sys.executable, str(PROGRAM)], env=env, capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout.splitlines()[-1]), ran.stderr


@pytest.mark.parametrize("family", cases.FAMILIES)
@pytest.mark.parametrize("mode", MODES)
def test_values_gradients_and_dtypes(mode: str, family: str) -> None:
    assert outcome(mode)[0][family]["faults"] == []


@pytest.mark.parametrize("mode", MODES)
def test_nothing_goes_to_the_host(mode: str) -> None:
    said = outcome(mode)[1]
    assert "CAUTION" not in said and "fall back" not in said, said


def test_every_composite_is_called() -> None:
    called = {name for family in outcome("override")[0].values() for name in family["names"]}
    assert called - {"jagged_index_select"} == set(fbgemm.composites()) - cases.WITH_A_TARGET


@pytest.mark.parametrize("target", ["npu:0", "npu:1", "cpu"])
def test_embeddings_of_several_devices(target: str) -> None:
    parts = [torch.arange(6.0).view(2, 3), torch.full((2, 3), 0.5)]
    spread = [part.to(f"npu:{i}").requires_grad_() for i, part in enumerate(parts)]
    device = torch.device(target)
    assert [part.device for part in ops.all_to_one_device(spread, device)] == [device] * 2
    merged = ops.merge_pooled_embeddings(spread, 2, device, 1)
    summed = ops.sum_reduce_to_one(spread, device)
    assert merged.device == summed.device == device
    assert merged.tolist() == torch.cat(parts, 1).tolist() and summed.tolist() == sum(parts).tolist()
    # The gradient of what is merged is a slice, and the twin copies no slices from one device to another.
    summed.backward(torch.full_like(summed, 2.0))
    if target == "cpu":
        merged.backward(torch.full_like(merged, 2.0))
    expected = 4 if target == "cpu" else 2
    assert all(part.grad.device == part.device and (part.grad == expected).all() for part in spread)


def on(*values: object) -> list[object]:
    return [value.to("npu:0") if isinstance(value, torch.Tensor) else value for value in values]


L, I = torch.tensor([2, 1, 0, 3]), torch.arange(6)
SIZES, OFFSETS = torch.tensor([5, 4]), torch.tensor([0, 2, 3])
BAD: dict[str, tuple[Callable[[], object], str]] = {
    "float ids": (
        lambda: ops.block_bucketize_sparse_features(*on(L, I.float(), False, False, SIZES, 2)),
        "block_bucketize_sparse_features: indices has an unsupported dtype; expected int32 or int64, got torch.float32",
    ),
    "no ranks": (
        lambda: ops.block_bucketize_sparse_features(*on(L, I, False, False, SIZES, 0)),
        "my_size must be at least 1, got 0",
    ),
    "sizes of other features": (
        lambda: ops.block_bucketize_sparse_features(*on(L, I, False, False, torch.tensor([5, 4, 3]), 2)),
        "lengths must have as many entries for each of the 3 features, got 4",
    ),
    "short weights": (
        lambda: ops.block_bucketize_sparse_features(*on(L, I, False, False, SIZES, 2, torch.ones(5))),
        "weights must have 6 rows, as indices; got shape (5,)",
    ),
    "sizes on the host": (
        lambda: ops.block_bucketize_sparse_features(*on(L, I, False, False), SIZES, 2),
        "expected block_sizes on npu:0, got cpu",
    ),
    "a range too few": (
        lambda: ops.block_bucketize_sparse_features(
            *on(L, I, False, False, SIZES, 2, None, None, -1), on(torch.tensor([0, 3, 9]), torch.tensor([0, 3]))
        ),
        "each of block_bucketize_pos must have 3 rows, as my_size and one more; got shape (2,)",
    ),
    "ids of two dimensions": (
        lambda: ops.bucketize_sparse_features(*on(L, I.view(2, 3), False, 2)),
        "bucketize_sparse_features: indices must be 1-D, got shape (2, 3)",
    ),
    "permutation of two dimensions": (
        lambda: ops.invert_permute(*on(I.view(2, 3))),
        "invert_permute: permute must be 1-D, got shape (2, 3)",
    ),
    "float offsets": (
        lambda: ops.offsets_range(*on(OFFSETS.float(), 5)),
        "offsets_range: offsets has an unsupported dtype; expected int32 or int64, got torch.float32",
    ),
    "offsets of other features": (
        lambda: ops.expand_into_jagged_permute(*on(torch.tensor([1, 0, 2]), OFFSETS, OFFSETS, 3)),
        "input_offset must have 4 rows, as permute and one more; got shape (3,)",
    ),
    "embeddings of one dimension": (
        lambda: ops.permute_pooled_embs(*on(torch.ones(5), OFFSETS, SIZES, OFFSETS, SIZES)),
        "permute_pooled_embs: pooled_embs must have 2 dimensions; expected [B, D], got shape (5,)",
    ),
    "a permutation too short": (
        lambda: ops.permute_pooled_embs(*on(torch.ones(2, 3), OFFSETS, torch.tensor([0]), OFFSETS, SIZES)),
        "permute_list must have 2 rows, as offset_dim_list and one less; got shape (1,)",
    ),
    "a group of unknown keys": (
        lambda: ops.regroup_keyed_tensor(on(torch.ones(2, 3)), [["a"]], [[3]], [["b"]]),
        "regroup_keyed_tensor: groups names ['b']; expected some of ['a']",
    ),
    "matrices of other rows": (
        lambda: ops.jagged_dense_bmm(*on(torch.ones(3, 2), OFFSETS, torch.ones(2, 3, 4), 2)),
        "jagged_dense_bmm: y must be [B, 2, N], got shape (2, 3, 4)",
    ),
    "softmax of a vector": (
        lambda: ops.jagged_softmax(*on(torch.ones(3), OFFSETS, 2)),
        "jagged_softmax: values must have 2 dimensions; expected [L, D], got shape (3,)",
    ),
    "batch of another size": (
        lambda: ops.keyed_jagged_index_select_dim1(*on(I, L, torch.tensor([0, 2, 3, 3, 6]), SIZES, 3)),
        "keyed_jagged_index_select_dim1: batch_size must divide the number of lengths (4), got 3",
    ),
    "bags of no whole features": (
        lambda: ops.jagged_unique_indices(*on(OFFSETS, OFFSETS, torch.tensor([0, 2, 3, 6]), I)),
        "jagged_unique_indices: offsets must have as many bags for each of 2 features, got 3",
    ),
    "another number of indices": (
        lambda: ops.batch_index_select_dim0(*on(torch.ones(6), I, [3], [2], [3])),
        "batch_index_select_dim0: indices must have 3 rows, as input_num_indices says; got shape (6,)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments(case: str) -> None:
    action, message = BAD[case]
    with pytest.raises(RuntimeError, match=re.escape(message)):
        action()


def test_indices_outside_read_the_nearest_element() -> None:
    """Nothing outside of a tensor is read, and the process goes on; fbgemm_gpu's CPU kernels crash on most of these."""
    far = torch.tensor([-9, 99, 1, 0, 99, 3])
    offsets = torch.tensor([0, 2, 3, 3, 6])
    pooled = torch.arange(6.0).view(2, 3)
    results = [
        ops.invert_permute(*on(far)),
        ops.expand_into_jagged_permute(*on(far[:4], offsets, offsets * 7, 9)),
        ops.permute_pooled_embs(*on(pooled, OFFSETS, far[:2], OFFSETS, SIZES)),
        ops.keyed_jagged_index_select_dim1(*on(I, L, offsets * 5, far, 2, None, 11))[0],
        ops.jagged_index_select_2d_forward(*on(pooled, far, offsets[1:] * 9, I * 3, 15)),
        ops.index_select_dim0(*on(pooled, far)),
        ops.block_bucketize_sparse_features(*on(L * 9, I, True, True, SIZES, 2))[1],
        ops.jagged_softmax(*on(pooled, OFFSETS * 9, 4))[0],
    ]
    for result in results:
        assert result.cpu().isfinite().all()
    assert set(results[2].flatten().tolist()) <= set(pooled.flatten().tolist())


@pytest.mark.parametrize("name", ["jagged_hash_size_cumsum", "batch_index_select_dim0_tensor", "quantize_mx_cuda"])
def test_what_no_kernel_can_do_is_said_of_the_npu(name: str) -> None:
    call = getattr(ops, name)
    x = torch.ones(4, device="npu:0")
    arguments = {
        "jagged_hash_size_cumsum": (x, x, 1),
        "batch_index_select_dim0_tensor": (x,) * 5,
        "quantize_mx_cuda": (x, 8, 3, 2, 1.0, 4),
    }[name]
    with pytest.raises(NotImplementedError, match=f"fbgemm::{name} cannot run on NPU tensors.*/fbgemm-names.md"):
        call(*arguments)
    assert name in fbgemm.refused()
