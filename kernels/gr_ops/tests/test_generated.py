"""More than 2000 generated cases on each back end against NumPy: shapes, dtypes, edges, bad inputs of every operator.

A case is a seed: what it draws does not depend on the back end. The first failing seed stands in the message.
"""

from collections.abc import Callable

import hstu_cases
import numpy as np
import pytest
import reference
import torch
from embedding_cases import MEAN, NONE, OPTIMIZERS, POOLINGS, Module, Optimizer, Tables, aggregate, forward, random_bags
from moves import DTYPES, bits, random_values

ops = torch.ops.mxrec
INDICES = [torch.int32, torch.int64]
SIZES = [0, 1, 2, 3, 7, 8, 9, 31, 33, 64, 65]  # around blocks of 32 bytes of every width
Rng = np.random.Generator


def pick(rng: Rng, values: list) -> object:
    return values[int(rng.integers(len(values)))]


def tensor(array: object, device: str, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.as_tensor(array, dtype=dtype).to(device)


def random_tree(rng: Rng, levels: int, batch: int) -> list[np.ndarray]:
    offsets, nodes = [], batch
    for _ in range(levels):
        lengths = rng.integers(0, 5, nodes) * (rng.random(nodes) > 0.25)
        offsets.append(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
        nodes = int(offsets[-1][-1])
    return offsets


def jagged(rng: Rng, device: str) -> None:
    levels, dtype = int(rng.integers(1, 4)), pick(rng, DTYPES)
    offsets = random_tree(rng, levels, int(pick(rng, [0, 1, 2, 5, 40])))
    rows, lengths = int(offsets[-1][-1]), rng.integers(0, 6, levels).tolist()
    inner = () if rng.integers(3) == 0 else (int(pick(rng, SIZES)),)
    values = random_values(rng, (rows, *inner), dtype)
    words = pick(rng, INDICES)
    moved = [tensor(o, device, words) for o in offsets]
    dense = ops.jagged_to_padded_dense(values.to(device), moved, lengths, 1.0)
    one = bits(torch.ones(1, dtype=dtype))[0]
    np.testing.assert_array_equal(bits(dense), reference.pad(bits(values), offsets, lengths, one))
    total = max(0, rows + int(rng.integers(-2, 3)))
    back = ops.dense_to_jagged(dense, moved, total)[0]
    np.testing.assert_array_equal(bits(back), reference.unpad(bits(dense), offsets, total))


def cumsum(rng: Rng, device: str) -> None:
    shape = (int(pick(rng, [*SIZES, 5000])),) if rng.integers(2) else (int(rng.integers(0, 6)), int(pick(rng, SIZES)))
    dtype = pick(rng, [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
    x = random_values(rng, shape, dtype)
    y = ops.asynchronous_complete_cumsum(x.to(device)).cpu().numpy()
    sums = np.cumsum(x.numpy(), axis=-1, dtype=x.numpy().dtype)  # wraps around
    np.testing.assert_array_equal(y, np.concatenate([np.zeros((*shape[:-1], 1), sums.dtype), sums], axis=-1))


def permutation(rng: Rng, device: str) -> None:
    features, batch = int(rng.integers(1, 9)), int(pick(rng, [0, 1, 3, 17]))
    lengths = rng.integers(0, 5, (features, batch))
    permute = rng.integers(0, features, int(pick(rng, [0, 1, features, 12])))
    inner = () if rng.integers(2) else (int(rng.integers(0, 5)),)
    rows = int(lengths.sum())
    values = random_values(rng, (rows, *inner), pick(rng, DTYPES))
    weights = random_values(rng, (rows,), pick(rng, DTYPES)) if rng.integers(2) else None
    entries, counts = tensor(permute, device, pick(rng, INDICES)), tensor(lengths, device, pick(rng, INDICES))
    moved_weights = None if weights is None else weights.to(device)
    out = ops.permute_2D_sparse_data(entries, counts, values.to(device), moved_weights)
    np.testing.assert_array_equal(out[0].cpu().numpy(), lengths[permute])
    np.testing.assert_array_equal(bits(out[1]), reference.permute_rows(permute, lengths, bits(values)))
    if weights is not None:
        np.testing.assert_array_equal(bits(out[2]), reference.permute_rows(permute, lengths, bits(weights)))
    dtype = pick(rng, [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64])
    grad = tensor(rng.integers(-9, 9, out[1].shape), "cpu", dtype)
    summed = ops.permute_sparse_data_backward(entries, counts, grad.to(device), rows).cpu()
    wide = torch.complex128 if dtype.is_complex else torch.float64
    expected = reference.permute_rows_grad(permute, lengths, grad.to(wide).numpy())
    np.testing.assert_array_equal(summed.to(wide).numpy(), expected)


def gather(rng: Rng, device: str) -> None:
    length, shape = int(pick(rng, [1, 2, 33, 300])), (int(pick(rng, SIZES)), int(pick(rng, [1, 3])))
    index = rng.integers(0, length, shape)
    x = random_values(rng, (length,), pick(rng, DTYPES))
    entries = tensor(index, device, pick(rng, INDICES))
    y = ops.gather_for_rank1(x.to(device), entries)
    np.testing.assert_array_equal(bits(y), bits(x)[index])
    dtype = pick(rng, [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64])
    grad = tensor(rng.integers(-4, 5, shape), "cpu", dtype)
    sums, zeros = ops.index_select_for_rank1_backward(
        grad.to(device), torch.zeros(length, dtype=dtype).to(device), entries
    )
    wide = torch.complex128 if dtype.is_complex else torch.float64
    expected = torch.zeros(length, dtype=wide).index_add(0, torch.from_numpy(index).view(-1), grad.to(wide).view(-1))
    assert sums.cpu().to(wide).equal(expected.to(dtype).to(wide)) and not zeros.cpu().any()


def bounds(rng: Rng, device: str) -> None:
    tables, vbe = int(rng.integers(1, 5)), bool(rng.integers(2))
    sizes = rng.integers(0, 5, tables) if vbe else np.full(tables, rng.integers(0, 5))
    bags = [0, *np.cumsum(sizes).tolist()]
    count = int(pick(rng, [0, 1, 20, 200]))
    indices, rows = rng.integers(-3, 8, count).tolist(), rng.integers(0, 7, tables).tolist()
    wild = rng.integers(-2, count + 3, bags[-1] + 1)
    offsets = wild.tolist() if rng.integers(2) else np.sort(np.clip(wild, 0, count)).tolist()
    expected = reference.check_bounds(rows, indices, offsets, bags)
    words = pick(rng, INDICES), pick(rng, INDICES)
    for mode, warning in ((1, expected[2]), (2, 10)):
        given = tensor(indices, device, words[0]), tensor(offsets, device, words[1]), tensor([10], device)
        more = (None, tensor(bags, device, torch.int32), int(max(sizes))) if vbe else ()
        ops.bounds_check_indices(tensor(rows, device), given[0], given[1], mode, given[2], *more)
        assert (given[0].tolist(), given[1].tolist(), given[2].item()) == (expected[0], expected[1], warning)


def embedding(rng: Rng, device: str) -> None:
    pooling, optimizer = pick(rng, POOLINGS), Optimizer(pick(rng, OPTIMIZERS), eps=1e-3)
    count = int(rng.integers(1, 4))
    dims = [int(pick(rng, [1, 3, 8, 17]))] * count if pooling == NONE else rng.choice([1, 3, 8, 17], count).tolist()
    features = [*range(count), *rng.integers(0, count, int(rng.integers(0, 3))).tolist()]
    tables = Tables(rng.integers(1, 20, count).tolist(), dims, features)
    indices, offsets = random_bags(rng, tables, int(rng.integers(0, 6)), 6, hot=0.3)
    weights = rng.uniform(-1, 1, tables.elements).astype(np.float32)
    widest = max(tables.feature_dims)
    factors = rng.uniform(-1, 1, len(indices)).astype(np.float32) if pooling != NONE and rng.integers(2) else None
    module = Module(tables, optimizer, tensor(weights.copy(), device))
    out = module.lookup(
        tensor(indices, device, pick(rng, INDICES)),
        tensor(offsets, device, pick(rng, INDICES)),
        pooling,
        indice_weights=None if factors is None else tensor(factors, device),
        max_D=widest,
    )
    expected = forward(tables, weights, indices, offsets, pooling, factors)[:, : out.shape[1]]
    np.testing.assert_allclose(out.detach().cpu().numpy(), expected, atol=1e-5, rtol=1e-5)
    grad = rng.uniform(-1, 1, out.shape).astype(np.float32)
    out.backward(tensor(grad, device))
    want, (m1, m2) = weights.astype(np.float64), optimizer.states(tables)
    optimizer.apply(tables, want, m1, m2, aggregate(tables, grad, indices, offsets, pooling, factors))
    np.testing.assert_allclose(module.weights.cpu().numpy(), want, atol=2e-5, rtol=1e-5)
    np.testing.assert_allclose(module.momentum1.cpu().numpy(), m1, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(module.momentum2.cpu().numpy(), m2, atol=1e-5, rtol=1e-5)


def attention(rng: Rng, device: str) -> None:
    lengths = tuple(int(pick(rng, [0, 1, 2, 5, 17, 33])) for _ in range(int(rng.integers(1, 4))))
    mask_type, counts = int(rng.integers(4)), bool(rng.integers(2))
    context = target = None
    group = window = min_full = 0
    distance = -1
    if mask_type == 0 and counts:
        context = tuple(int(rng.integers(0, n + 1)) for n in lengths)
        target = tuple(int(rng.integers(0, n - c + 1)) for n, c in zip(lengths, context))
        group, window = (int(rng.integers(0, 4)), 0) if rng.integers(2) else (0, int(rng.integers(1, 5)))
        min_full = int(rng.integers(0, 4)) if window else 0
        distance = int(rng.integers(-1, 6)) if not window else -1
    flags = [None, (True, True), (False, True), (True, False), (False, False)]
    hstu_cases.check(
        hstu_cases.Case(
            lengths=lengths,
            heads=int(rng.integers(1, 4)),
            dim=int(pick(rng, [1, 3, 8, 17])),
            value_dim=int(pick(rng, [1, 4, 9])),
            dtype=pick(rng, [torch.float32, torch.float16, torch.bfloat16]),
            mask_type=mask_type,
            mask_dtype=pick(rng, [None, torch.bool, torch.uint8]),
            mask_shape=pick(rng, flags[1:]),
            bias=pick(rng, flags),
            spare=int(rng.integers(0, 3)),
            scale=float(pick(rng, [0.0, 1.0, -0.5])),
            alpha=float(pick(rng, [1.0, 0.25])),
            context=context,
            target=target,
            group=group,
            window=window,
            min_full=min_full,
            distance=distance,
            index_dtype=pick(rng, INDICES),
            seed=int(rng.integers(1 << 30)),
        ),
        device,
    )


def bad_input(rng: Rng, device: str) -> None:
    """One thing wrong with a sound call: an error that names the operator, and what was to be updated is untouched."""
    lengths = rng.integers(1, 5, 4)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rows = int(offsets[-1])
    values = torch.ones(rows, 2, device=device)
    broken = offsets.copy()
    at = int(rng.integers(1, 4))
    broken[at], broken[at + 1] = broken[at + 1], broken[at] if rng.integers(2) else rows + 9
    wrong_index = rng.integers(0, rows, 6)
    wrong_index[int(rng.integers(6))] = pick(rng, [-1, rows, rows + 7])
    negative = lengths.copy()
    negative[at] *= -1
    q = torch.ones(rows, 1, 4, device=device)
    module = Module(Tables([rows], [4]), Optimizer("adagrad"), torch.ones(4 * rows, device=device))
    calls: list[Callable[[], object]] = [
        lambda: ops.jagged_to_padded_dense(values, [tensor(broken, device)], [3]),
        lambda: ops.dense_to_jagged(torch.ones(4, 3, 2, device=device), [tensor(offsets[::-1].copy(), device)]),
        lambda: ops.jagged_to_padded_dense(values, [tensor(offsets, device, torch.int16)], [3]),
        lambda: ops.asynchronous_complete_cumsum(tensor(lengths > 2, device)),
        lambda: ops.permute_2D_sparse_data(tensor([pick(rng, [-1, 4, 99])], device), tensor(lengths, device), values),
        lambda: ops.permute_2D_sparse_data(tensor([0], device), tensor(negative, device), values),
        lambda: ops.permute_2D_sparse_data(tensor([0], device), tensor(lengths, device), values[1:]),
        lambda: ops.gather_for_rank1(values[:, 0], tensor(wrong_index, device)),
        lambda: ops.bounds_check_indices(tensor([rows], device), tensor([0], device), tensor([0], device), 9, values),
        lambda: ops.hstu_dense(q, q, q, layout="jagged", seqOffset=tensor(broken, device)),
        lambda: ops.hstu_dense(q, q, q, maskType=int(pick(rng, [-1, 4])), layout="jagged", seqOffset=offsets.tolist()),
        lambda: ops.hstu_dense(
            q, q, q, None, torch.ones(4, 1, 1, 1, device=device), layout="jagged", seqOffset=tensor(offsets, device)
        ),
        lambda: module.lookup(tensor(wrong_index, device), tensor([0, 6], device), MEAN),
        lambda: module.lookup(tensor([0, 1], device), tensor([0, pick(rng, [1, 3])], device), MEAN),
    ]
    with pytest.raises(RuntimeError, match=r"^(\w+: |Index)|Index \d+ is out of bounds"):
        pick(rng, calls)()
    assert (module.weights.cpu() == 1).all() and (module.momentum1.cpu() == 0).all() and (values.cpu() == 1).all()


FAMILIES = {
    jagged: 300,
    cumsum: 200,
    permutation: 300,
    gather: 300,
    bounds: 300,
    embedding: 250,
    attention: 250,
    bad_input: 250,
}
PART = 50
PARTS = [(family, first) for family, count in FAMILIES.items() for first in range(0, count, PART)]


def test_there_are_enough() -> None:
    assert len(PARTS) * PART >= 2000


@pytest.mark.parametrize(("family", "first"), PARTS, ids=[f"{f.__name__}-{n}" for f, n in PARTS])
def test_generated(family: Callable[[Rng, str], None], first: int, device: str, monkeypatch) -> None:
    if family is bad_input:
        monkeypatch.setenv("MXREC_CHECK", "1")  # contents of device tensors are looked at on request
    for seed in range(first, first + PART):
        try:
            family(np.random.default_rng(seed), device)
        except BaseException as fault:
            raise AssertionError(f"{family.__name__}, seed {seed}: {fault}") from fault
