"""mxrec's CPU kernels against those of fbgemm_gpu, on what fbgemm_gpu handles. Run with MXREC_NO_FBGEMM_OVERRIDE=1."""

import gr_ops  # noqa: F401
import numpy as np
import torch

STOCK, OURS = torch.ops.fbgemm, torch.ops.mxrec
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64]


def offsets_of(rng: np.random.Generator, batch: int, levels: int, dtype: torch.dtype) -> list[torch.Tensor]:
    offsets, nodes = [], batch
    for _ in range(levels):
        lengths = rng.integers(0, 4, nodes) * (rng.random(nodes) > 0.2)
        offsets.append(torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)])).to(dtype))
        nodes = int(offsets[-1][-1])
    return offsets


def jagged(rng: np.random.Generator) -> None:
    levels = int(rng.integers(1, 5))
    offsets = offsets_of(rng, int(rng.integers(1, 6)), levels, [torch.int32, torch.int64][int(rng.integers(2))])
    rows, inner = int(offsets[-1][-1]), int(rng.integers(1, 20))
    dtype = DTYPES[int(rng.integers(len(DTYPES)))]
    values = torch.from_numpy(rng.integers(-99, 99, (rows, inner))).to(dtype)
    lengths = rng.integers(1, 5, levels).tolist()
    padding = float(rng.integers(-3, 4))
    dense = STOCK.jagged_to_padded_dense(values, offsets, lengths, padding)
    assert OURS.jagged_to_padded_dense(values, offsets, lengths, padding).equal(dense)
    back = STOCK.dense_to_jagged(dense, offsets, rows)[0]
    assert OURS.dense_to_jagged(dense, offsets, rows)[0].equal(back)
    if dtype.is_floating_point:
        grads = []
        for ops in (STOCK, OURS):
            x = values.clone().requires_grad_()
            y = ops.jagged_to_padded_dense(x, offsets, lengths, padding)
            z = ops.dense_to_jagged(y * 2, offsets, rows)[0]
            (z * torch.arange(1.0, inner + 1).to(dtype)).sum().backward()
            grads.append(x.grad)
        assert grads[0].equal(grads[1])


def sums(rng: np.random.Generator) -> None:
    shape = (int(rng.integers(0, 70)),) if rng.integers(2) else (int(rng.integers(1, 5)), int(rng.integers(0, 40)))
    for dtype in (torch.int32, torch.int64):
        info = torch.iinfo(dtype)
        x = torch.from_numpy(rng.integers(info.min, info.max, shape, endpoint=True)).to(dtype)
        for name in ("complete", "inclusive", "exclusive"):
            if name == "exclusive" and x.numel() == 0:
                continue  # reads beyond the tensor in fbgemm_gpu
            name = f"asynchronous_{name}_cumsum"
            assert getattr(OURS, name)(x).equal(getattr(STOCK, name)(x)), (name, x)
    y = torch.from_numpy(rng.uniform(0, 1, shape)).float()
    torch.testing.assert_close(
        OURS.asynchronous_complete_cumsum(y), STOCK.asynchronous_complete_cumsum(y), rtol=1e-5, atol=1e-5
    )


def permutations(rng: np.random.Generator) -> None:
    features, batch = int(rng.integers(1, 9)), int(rng.integers(0, 6))
    lengths = torch.from_numpy(rng.integers(0, 6, (features, batch))).to(
        [torch.int32, torch.int64][int(rng.integers(2))]
    )
    permute = torch.from_numpy(rng.integers(0, features, int(rng.integers(0, 12)))).int()
    rows = int(lengths.sum())
    dtype = DTYPES[int(rng.integers(len(DTYPES)))]
    values = torch.from_numpy(rng.integers(-99, 99, rows)).to(dtype)
    weights = torch.from_numpy(rng.random(rows)).float() if rng.integers(2) else None
    for name, given in (
        ("permute_2D_sparse_data", lengths),
        ("permute_1D_sparse_data", lengths.sum(1, dtype=lengths.dtype)),
    ):
        expected = getattr(STOCK, name)(permute, given, values, weights)
        got = getattr(OURS, name)(permute, given, values, weights)
        assert all((a is None and b is None) or a.equal(b) for a, b in zip(expected, got)), name
    whole = torch.from_numpy(rng.permutation(features)).int()
    grads = []
    for ops in (STOCK, OURS):
        x = torch.ones(rows, requires_grad=True)
        y = ops.permute_2D_sparse_data(whole, lengths, torch.zeros(rows), x)[2]
        (y * torch.arange(1.0, rows + 1)).sum().backward()
        grads.append(x.grad)
    assert grads[0].equal(grads[1])


def bounds(rng: np.random.Generator) -> None:
    tables, batch, count = int(rng.integers(1, 5)), int(rng.integers(0, 5)), int(rng.integers(0, 14))
    rows = torch.from_numpy(rng.integers(0, 7, tables))
    # One dtype for both: with two of them fbgemm_gpu repairs a copy of the offsets.
    dtype = [torch.int32, torch.int64][int(rng.integers(2))]
    indices = torch.from_numpy(rng.integers(-3, 9, count)).to(dtype)
    raw = (
        rng.integers(-2, 16, tables * batch + 1)
        if rng.integers(2)
        else np.sort(rng.integers(0, count + 1, tables * batch + 1))
    )
    raw[0] = max(raw[0], 0) * int(rng.integers(2))
    offsets = torch.from_numpy(raw).to(dtype)
    for mode in (0, 1, 2):  # NONE reads indices wherever the offsets point in fbgemm_gpu
        results = []
        for ops in (STOCK, OURS):
            i, o, w = indices.clone(), offsets.clone(), torch.tensor([10])
            try:
                ops.bounds_check_indices(rows, i, o, mode, w)
                results.append((i.tolist(), o.tolist(), w.item()))
            except RuntimeError:
                results.append("raised")
        if mode == 0 and raw[0] != 0:
            assert results[1] == "raised"  # ours alone looks at the first offset
        else:
            assert results[0] == results[1], (mode, rows, indices, offsets, results)


if __name__ == "__main__":
    rng = np.random.default_rng(11)
    for _ in range(300):
        jagged(rng)
        sums(rng)
        permutations(rng)
        bounds(rng)
    print("stock ok")
