"""hstu_dense, hstu_jagged, hstu_varlen, hstu_paged and their gradients on CUDA tensors."""

from __future__ import annotations

from typing import Any

import torch

from gr_ops.cuda import attention
from gr_ops.cuda.arguments import Arguments
from gr_ops.cuda.mask import USER
from gr_ops.cuda.problem import Pages, Problem

Tensors = tuple[torch.Tensor, ...]


def forward(op: Any, *values: Any) -> torch.Tensor:
    given = Arguments(op, values)
    out: torch.Tensor = given.results()
    attention.attend(problem_of(given), rows(out))
    return out


def backward(op: Any, *values: Any) -> Tensors:
    given = Arguments(op, values)
    results: Tensors = given.results()
    *of_inputs, of_bias = results
    p, grad = problem_of(given), rows(given["grad"])
    attention.gradients(p, grad, *(rows(x) for x in of_inputs))
    if p.dense is not None and given["bias_grad"]:
        attention.dense_gradient(p, grad, of_bias)
    return results


def problem_of(given: Arguments) -> Problem:
    q, k, v, bias = (given[name] for name in ("q", "k", "v", "attn_bias"))
    offsets, longest = _offsets(given)
    key_offsets, pages = given["seq_offset_k"], _pages(given)
    most_keys = given["max_seq_len_k"] or longest
    if not given["max_seq_len_k"] and (key_offsets is not None or pages is not None):
        most_keys = _most_keys(offsets if key_offsets is None else key_offsets, pages)
    alpha = given["alpha"]

    def in_row(tokens: int) -> int:
        """A number of tokens beyond every row says no more than the longest does, and what it is added to could leave
        32 bits."""
        return min(tokens, max(most_keys, 1))

    return Problem(
        q=rows(q),
        k=rows(k),
        v=rows(v),
        offsets=offsets,
        longest=longest,
        scale=given["silu_scale"] or 1 / max(most_keys, 1),
        alpha=1.0 if alpha is None else alpha,
        mask_type=given["mask_type"],
        contexts=given["num_context"],
        targets=_targets(given),
        group=in_row(max(given["target_group_size"] or 0, 1)),
        window=in_row(given["max_attn_len"]),
        min_full=in_row(given["min_full_attn_seq_len"]),
        distance=given["window_size"],
        mask=given["mask"].contiguous() if given["mask"] is not None and given["mask_type"] == USER else None,
        dense=None if bias is None else bias.contiguous(),
        deterministic=given["deterministic"],
        key_offsets=key_offsets,
        most_keys=most_keys,
        pages=pages,
    )


def rows(x: torch.Tensor) -> torch.Tensor:
    """[B, S, N, D] and [L, N, D] alike as [tokens, N, D]."""
    return x.flatten(0, 1) if x.dim() == 4 else x


def _offsets(given: Arguments) -> tuple[torch.Tensor, int]:
    """Of queries, and the longest row of them."""
    q, offsets, longest = given["q"], given["seq_offset"], given["max_seq_len"]
    if given["layout"] == "normal":
        batch, longest = q.shape[:2]
        return torch.arange(batch + 1, device=q.device) * longest, longest
    if not isinstance(offsets, torch.Tensor):
        offsets = torch.tensor(offsets, device=q.device)
    if not longest and len(q):
        longest = int(offsets.diff().max())
    return offsets, longest


def _pages(given: Arguments) -> Pages | None:
    if given["kv_cache"] is None:
        return None
    return Pages(given["kv_cache"].contiguous(), given["page_offsets"], given["page_ids"], given["last_page_len"])


def _most_keys(offsets: torch.Tensor, pages: Pages | None) -> int:
    keys = offsets.diff()
    if pages is not None:
        keys = keys + pages.cached()
    return int(keys.max()) if len(keys) else 0


def _targets(given: Arguments) -> torch.Tensor | None:
    if given["num_target"] is None and given["seq_offset_t"] is not None:
        return given["seq_offset_t"].diff()
    targets: torch.Tensor | None = given["num_target"]
    return targets
