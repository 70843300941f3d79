"""hstu_varlen and hstu_paged of CUDA tensors against the formulas in float64 (hstu_reference.py)."""

import hstu_reference as reference
import numpy as np
import pytest
import torch
from cuda_cases import ON_GPU, assert_near

ops = torch.ops.mxrec
# Tiles of 16 and 32 in the interpreter: queries begin in the middle of a tile of keys, at its start, behind several.
KEYS = (5, 1, 0, 130, 97, 64) if ON_GPU else (5, 1, 0, 50, 33)
QUERIES = (3, 1, 0, 127, 1, 64) if ON_GPU else (3, 1, 0, 47, 1)
HEADS, DIM, VALUE_DIM = 2, 10, 7
BOUND = {torch.float32: 2e-6, torch.bfloat16: 6e-3, torch.float16: 1e-3}
HALF = torch.bfloat16 if ON_GPU else torch.float16  # Triton 3.2's interpreter takes bfloat16's bits for numbers


def offsets_of(lengths, device="cpu"):
    return torch.tensor([0, *np.cumsum(lengths).tolist()], device=device)


def wide(rows, width):
    """Tokens further apart than their heads are wide."""
    return torch.randn(rows, 3 * HEADS * width)[:, HEADS * width : 2 * HEADS * width].unflatten(1, (HEADS, width))


def numbers(*tensors):
    return [x.detach().double().cpu().numpy() for x in tensors]


@pytest.mark.parametrize("bias_shape", [None, (1, 1), (len(KEYS), HEADS)], ids=str)
@pytest.mark.parametrize("mask_type", range(4))
def test_varlen_and_its_gradients(mask_type, bias_shape, device):
    side = max(KEYS) + 2
    q, k, v = wide(sum(QUERIES), DIM), wide(sum(KEYS), DIM), wide(sum(KEYS), VALUE_DIM)
    grad = torch.randn(sum(QUERIES), HEADS, VALUE_DIM)
    mask = (torch.randn(len(KEYS), 1, side, side) > 0).float()
    bias = None if bias_shape is None else torch.randn(*bias_shape, side, side)
    leaves = [x.to(device).requires_grad_() for x in (q, k, v, bias) if x is not None]
    offsets = offsets_of(QUERIES, device), offsets_of(KEYS, device)
    given = (*leaves[:3], mask.to(device), leaves[3] if bias is not None else None)
    out = ops.hstu_varlen(*given, mask_type, 0, 0, 0.0, *offsets)
    found = torch.autograd.grad(out, leaves, grad.to(device))
    rows = reference.batch(
        *numbers(q, k, v),
        offsets_of(QUERIES).tolist(),
        offsets_of(KEYS).tolist(),
        mask_type=mask_type,
        bias=None if bias is None else numbers(bias)[0],
        mask=numbers(mask)[0],
    )
    wanted = reference.gradients(rows, numbers(grad)[0], None if bias is None else bias.shape)
    expected = [torch.from_numpy(x) for x in (reference.outputs(rows), *wanted) if x is not None]
    assert_near([out, *found], expected[: 1 + len(leaves)])


@pytest.mark.parametrize("page_size", [1, 5, 32])
@pytest.mark.parametrize("dtype", [torch.float32, HALF], ids=str)
def test_paged(dtype, page_size, device):
    """Rows with nothing in the cache, less than a page, whole pages; pages in any order; targets told in two ways."""
    rng = np.random.default_rng(page_size)
    cached, fresh, targets = (0, 1, page_size, 40, 3 * page_size - 1), (4, 1, 30, 9, 12), (2, 0, 30, 4, 5)
    counts = [-(-n // page_size) for n in cached]
    page_offsets = offsets_of(counts)
    pages = sum(counts) + 3
    ids = torch.from_numpy(rng.permutation(pages)[: sum(counts)])
    last = torch.tensor([n - (c - 1) * page_size if c else 0 for n, c in zip(cached, counts)])
    cache = torch.randn(pages, 2, page_size, HEADS, DIM).to(dtype)
    q, k, v = (wide(sum(fresh), DIM).to(dtype) for _ in range(3))
    gathered = [[], []]
    for row, new_k, new_v in zip(range(len(fresh)), k.split(fresh), v.split(fresh)):
        own = ids[page_offsets[row] : page_offsets[row + 1]]
        for part, new in enumerate((new_k, new_v)):
            gathered[part] += [cache[own, part].reshape(-1, HEADS, DIM)[: cached[row]], new]
    keys, values = (torch.cat(parts) for parts in gathered)
    key_offsets = offsets_of([c + f for c, f in zip(cached, fresh)])
    rows = reference.batch(
        *numbers(q, keys, values), offsets_of(fresh).tolist(), key_offsets.tolist(), target=targets, group=2, alpha=0.5
    )
    expected = torch.from_numpy(reference.outputs(rows))
    known = {"page_offsets": page_offsets, "page_ids": ids, "last_page_len": last, "seq_offset": offsets_of(fresh)}
    known = {name: x.to(device) for name, x in known.items()} | {"target_group_size": 2, "alpha": 0.5}
    tensors = [x.to(device) for x in (q, k, v, cache)]
    for told in (
        {"num_target": torch.tensor(targets, device=device)},
        {"seq_offset_t": offsets_of(targets, device), "max_seq_len": 32, "max_seq_len_k": 200, "silu_scale": 1 / 107},
    ):
        out = ops.hstu_paged(*tensors, **known, **told)
        scale = told.get("silu_scale", 1 / int(key_offsets.diff().max())) * int(key_offsets.diff().max())
        assert_near([out], [expected * scale], BOUND[dtype])


def test_paged_without_pages_is_jagged(device):
    q, k, v = (wide(27, DIM).to(device) for _ in range(3))
    offsets = torch.tensor([0, 20, 27], device=device)
    found, expected = ops.hstu_paged(q, k, v, seq_offset=offsets), ops.hstu_jagged(q, k, v, seq_offset=offsets)
    assert_near([found], [expected.double().cpu()])


def test_nothing_new_and_nothing_cached(device):
    """Rows without queries, and a batch without any."""
    q = torch.zeros(0, HEADS, DIM, device=device)
    k = torch.randn(7, HEADS, DIM, device=device)
    none, keys = torch.zeros(3, dtype=torch.int64, device=device), torch.tensor([0, 3, 7], device=device)
    q.requires_grad_(), k.requires_grad_()
    out = ops.hstu_varlen(q, k, k, seqOffset=none, seqOffsetK=keys)
    assert out.shape == (0, HEADS, DIM)
    _, of_k = torch.autograd.grad(out, (q, k), torch.zeros_like(out))
    assert not of_k.any()
