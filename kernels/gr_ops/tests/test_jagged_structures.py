"""Any jagged structure on the CPU, against the recursive definition (docs/operators.md)."""

import numpy as np
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from moves import DTYPES, bits, random_values


@st.composite
def structures(draw: st.DrawFn) -> tuple[list[np.ndarray], list[int], tuple[int, ...]]:
    """Offsets of K levels, padded lengths, trailing dimensions."""
    offsets, nodes = [], draw(st.integers(0, 4))
    for _ in range(draw(st.integers(1, 5))):
        lengths = draw(st.lists(st.integers(0, 3), min_size=nodes, max_size=nodes))
        offsets.append(np.concatenate([[0], np.cumsum(np.array(lengths, np.int64))]).astype(np.int64))
        nodes = int(offsets[-1][-1])
    offsets[0] = offsets[0] if len(offsets) > 1 else offsets[0] + draw(st.integers(0, 2))
    lengths = draw(st.lists(st.integers(0, 4), min_size=len(offsets), max_size=len(offsets)))
    return offsets, lengths, draw(st.sampled_from([(), (1,), (3,), (2, 2), (0,)]))


@settings(max_examples=400, deadline=None)
@given(
    structure=structures(),
    dtype=st.sampled_from(DTYPES),
    words=st.sampled_from([torch.int32, torch.int64]),
    extra=st.integers(-3, 3),
    seed=st.integers(0, 99),
)
def test_both_directions(structure, dtype: torch.dtype, words: torch.dtype, extra: int, seed: int) -> None:
    offsets, lengths, trailing = structure
    rng = np.random.default_rng(seed)
    total = int(offsets[-1][-1])
    given_offsets = [torch.from_numpy(offset).to(words) for offset in offsets]
    values = random_values(rng, (total + max(extra, 0), *trailing), dtype)
    padding = int(bits(torch.ones(1).to(dtype))[0])
    dense = torch.ops.fbgemm.jagged_to_padded_dense(values, given_offsets, lengths, 1.0)
    np.testing.assert_array_equal(bits(dense), reference.pad(bits(values), offsets, lengths, padding))

    filled = random_values(rng, (len(offsets[0]) - 1, *lengths, *trailing), dtype)
    rows = max(0, total + extra)
    for given_total in (rows, None):
        jagged, returned = torch.ops.fbgemm.dense_to_jagged(filled, given_offsets, given_total)
        expected = reference.unpad(bits(filled), offsets, total if given_total is None else rows)
        np.testing.assert_array_equal(bits(jagged), expected)
        assert [o.data_ptr() for o in returned] == [o.data_ptr() for o in given_offsets]
    if dtype.is_floating_point:
        leaf = filled.nan_to_num().clone().requires_grad_()
        jagged, _ = torch.ops.mxrec.dense_to_jagged(leaf, given_offsets, rows)
        weight = torch.from_numpy(rng.integers(-9, 9, tuple(jagged.shape))).to(dtype)
        jagged.backward(weight)
        np.testing.assert_array_equal(bits(leaf.grad), reference.pad(bits(weight), offsets, lengths, 0))


@settings(max_examples=200, deadline=None)
@given(
    shape=st.one_of(st.tuples(st.integers(0, 70)), st.tuples(st.integers(0, 5), st.integers(0, 40))),
    dtype=st.sampled_from(["int8", "uint8", "int16", "int32", "int64"]),
    seed=st.integers(0, 99),
)
def test_sums_wrap_around(shape: tuple[int, ...], dtype: str, seed: int) -> None:
    info = np.iinfo(dtype)
    x = np.random.default_rng(seed).integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    with np.errstate(over="ignore"):
        running = np.cumsum(x, axis=-1, dtype=dtype)
        flat = np.cumsum(x, dtype=dtype)
    got = torch.ops.fbgemm.asynchronous_complete_cumsum(torch.from_numpy(x)).numpy()
    np.testing.assert_array_equal(got[..., 1:], running)
    assert not got[..., :1].any() and got.dtype == dtype
    inclusive = torch.ops.fbgemm.asynchronous_inclusive_cumsum(torch.from_numpy(x)).numpy()
    np.testing.assert_array_equal(inclusive, flat.reshape(shape))
    exclusive = torch.ops.fbgemm.asynchronous_exclusive_cumsum(torch.from_numpy(x)).numpy()
    np.testing.assert_array_equal(exclusive.ravel(), np.concatenate([[0], flat])[:-1].astype(dtype) if x.size else flat)
