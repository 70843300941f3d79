"""hstu_varlen, where queries are the last of the keys, and hstu_paged, where older keys lie in pages of a cache."""

import hstu_reference as reference
import numpy as np
import pytest
import torch
from hstu_cases import TOLERANCE, Case, Problem, assert_close

ops = torch.ops.mxrec
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("mask_type", range(4))
def test_varlen(mask_type: int, device: str) -> None:
    """Queries at the end of the keys; mask and bias by absolute position."""
    rng = np.random.default_rng(mask_type)
    keys = [5, 1, 0, 130, 97, 64] if device == "cpu" else [5, 1, 0, 40]
    queries = [int(rng.integers(0, n + 1)) for n in keys]
    queries[3] = keys[3] - 3
    offsets, offsets_k = ([0, *np.cumsum(n).tolist()] for n in (queries, keys))
    side = max(keys) + 2

    def uniform(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.uniform(-1, 1, shape)).float()

    q, k, v = uniform(offsets[-1], 2, 10), uniform(offsets_k[-1], 2, 10), uniform(offsets_k[-1], 2, 7)
    grad, bias = uniform(offsets[-1], 2, 7), uniform(1, 2, side, side)
    mask = (uniform(len(keys), 1, side, side) > 0).float()
    inputs = [x.clone().to(device).requires_grad_() for x in (q, k, v, bias)]
    output = ops.hstu_varlen(
        *inputs[:3],
        mask.to(device),
        inputs[3],
        mask_type,
        0,
        0,
        0.0,
        torch.tensor(offsets).to(device),
        torch.tensor(offsets_k).to(device),
    )
    grads = torch.autograd.grad(output, inputs, grad.to(device))
    q, k, v, grad, bias, mask = (x.double().numpy() for x in (q, k, v, grad, bias, mask))
    rows = reference.batch(q, k, v, offsets, offsets_k, mask_type=mask_type, bias=bias, mask=mask)
    assert_close(output.detach().cpu(), reference.outputs(rows), torch.float32)
    for actual, wanted in zip(grads, reference.gradients(rows, grad, bias.shape)):
        assert_close(actual.cpu(), wanted, torch.float32, terms=len(keys))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("page_size", [1, 5, 32])
def test_paged_equals_gathered(dtype: torch.dtype, page_size: int, device: str) -> None:
    rng = np.random.default_rng(page_size)
    heads, dim, pages = 2, 18, 80 // page_size * 4 + 8
    cached = [0, 1, page_size, 70, 3 * page_size - 1]
    fresh = [4, 1, 30, 9, 12]
    target = [2, 0, 30, 4, 5]
    counts = [-(-n // page_size) for n in cached]
    page_offsets = [0, *np.cumsum(counts).tolist()]
    page_ids = rng.permutation(pages)[: page_offsets[-1]]
    last = [n - (c - 1) * page_size if c else 0 for n, c in zip(cached, counts)]

    def uniform(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.uniform(-1, 1, shape)).to(dtype)

    cache = uniform(pages, 2, page_size, heads, dim)
    total = sum(fresh)
    q, k, v = (uniform(total, heads, dim) for _ in range(3))
    offsets = [0, *np.cumsum(fresh).tolist()]
    gathered: list[list[torch.Tensor]] = [[], []]
    for b in range(len(fresh)):
        ids = page_ids[page_offsets[b] : page_offsets[b + 1]]
        for part, new in enumerate((k, v)):
            gathered[part].append(cache[ids, part].reshape(-1, heads, dim)[: cached[b]])
            gathered[part].append(new[offsets[b] : offsets[b + 1]])
    keys, values = (torch.cat(parts) for parts in gathered)
    offsets_k = [0, *np.cumsum([c + f for c, f in zip(cached, fresh)]).tolist()]
    rows = reference.batch(
        q.double().numpy(),
        keys.double().numpy(),
        values.double().numpy(),
        offsets,
        offsets_k,
        target=target,
        group=2,
        alpha=0.5,
    )

    def index(data: object) -> torch.Tensor:
        return torch.as_tensor(np.asarray(data)).to(device)

    pages_of = {"page_offsets": index(page_offsets), "page_ids": index(page_ids), "last_page_len": index(last)}
    moved = [x.to(device) for x in (q, k, v, cache)]
    for counted in ({"num_target": index(target)}, {"seq_offset_t": index([0, *np.cumsum(target)])}):
        output = ops.hstu_paged(
            *moved, seq_offset=index(offsets), target_group_size=2, alpha=0.5, **pages_of, **counted
        )
        assert_close(output.cpu(), reference.outputs(rows), dtype)
    plain = ops.hstu_paged(*moved, seq_offset=index(offsets), **pages_of)
    varlen = ops.hstu_varlen(
        moved[0], keys.to(device), values.to(device), seqOffset=index(offsets), seqOffsetK=index(offsets_k)
    )
    # On the NPU a page ends a tile, so the partial sums are other ones.
    assert plain.equal(varlen) if device == "cpu" else torch.allclose(plain, varlen, atol=TOLERANCE[dtype], rtol=0)


def test_paged_without_pages_is_varlen(device: str) -> None:
    case = Case((20, 7), 2, 8, 8)
    problem = Problem(case)
    q, k, v = (x.to(device) for x in (problem.q, problem.k, problem.v))
    output = ops.hstu_paged(q, k, v, seq_offset=torch.tensor(case.offsets).to(device))
    assert_close(output.cpu(), problem.expected()[0], torch.float32)
