"""Fused attention: results and gradients of each layout, mask and option, against float64 written out here.

Prints, of each case, the largest difference over the largest expected value, as JSON.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import torch_npu

HEADS, WIDTH = 4, 16
Seen = Callable[[int, int, int, int], bool]
TRIANGLE = torch.ones(2048, 2048).triu(1).bool()
PREFIX_MATRIX = torch.cat((TRIANGLE, (torch.arange(2048) >= 1024).expand(1024, 2048)))


def reference(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, **given: torch.Tensor | float | None
) -> torch.Tensor:
    """[B, N, S, D] in float64. `hidden` is True where a score is left out, `keep` where dropout keeps a weight."""
    group = query.size(1) // key.size(1)
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = query @ key.transpose(2, 3)
    if given.get("pse") is not None:
        scores = scores + given["pse"]
    scores = scores * scale
    hidden = given.get("hidden")
    if hidden is None:
        weights = scores.softmax(-1)
    else:
        hidden = hidden.expand_as(scores)
        nothing = hidden.all(-1, keepdim=True)
        weights = scores.masked_fill(hidden & ~nothing, -math.inf).softmax(-1).masked_fill(nothing, 0)
    if given.get("keep") is not None:
        weights = weights * given["keep"] / given["keep_prob"]
    return weights @ value


def right_down(n: int, i: int, j: int, beyond: int) -> bool:
    return j <= i + beyond


def hidden(queries: int, keys: int, seen: Callable[[int, int], bool]) -> torch.Tensor:
    rows = [[not seen(row, column) for column in range(keys)] for row in range(queries)]
    return torch.tensor(rows, dtype=torch.bool)


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """From [B, N, S, D]."""
    if layout == "BNSD":
        return tensor
    if layout == "BSND":
        return tensor.transpose(1, 2).contiguous()
    if layout == "BSH":
        return tensor.transpose(1, 2).flatten(2)
    return tensor.permute(2, 0, 1, 3).flatten(2)  # SBH


def difference(given: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    pairs = zip(given, expected, strict=True)
    return max(float((a.cpu().double() - b).abs().max() / b.abs().max().clamp_min(1e-3)) for a, b in pairs)


def compare(
    call: Callable[..., torch.Tensor],
    check: Callable[..., torch.Tensor],
    inputs: list[torch.Tensor],
    dtype: torch.dtype,
) -> float:
    """Both compute [B, N, S, D]-like results of the inputs; gradients come from one random cotangent."""
    inputs = [i.to(dtype) for i in inputs]
    moved = [i.npu().requires_grad_() for i in inputs]
    wide = [i.double().requires_grad_() for i in inputs]
    given, expected = call(*moved), check(*wide)
    cotangent = torch.randn(expected.shape).to(dtype)
    given.backward(cotangent.npu())
    expected.backward(cotangent.double())
    gradients = [[i.grad for i in side] for side in (moved, wide)]
    return difference([given.detach(), *gradients[0]], [expected.detach(), *gradients[1]])


def fused(
    dtype: torch.dtype = torch.float32,
    layout: str = "BNSD",
    sizes: tuple[int, int] = (9, 13),
    key_heads: int = HEADS,
    out_of_sight: torch.Tensor | None = None,
    pse_shape: tuple[int, ...] | None = None,
    **options: Any,
) -> float:
    """One case of npu_fusion_attention; its inputs are leaves in the layout, so gradients come in it too."""
    batch, (queries, keys) = 2, sizes
    scale = 1 / math.sqrt(WIDTH)
    inputs = [
        torch.randn(batch, HEADS, queries, WIDTH),
        torch.randn(batch, key_heads, keys, WIDTH),
        torch.randn(batch, key_heads, keys, WIDTH),
    ]
    if pse_shape:
        inputs.append(torch.randn(pse_shape))
    if "atten_mask" in options:
        options["atten_mask"] = options["atten_mask"].npu()

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pse: torch.Tensor | None = None) -> torch.Tensor:
        q, k, v = (laid_out(t, layout) for t in (q, k, v))
        return torch_npu.npu_fusion_attention(q, k, v, HEADS, layout, pse=pse, scale=scale, **options)[0]

    def check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pse: torch.Tensor | None = None) -> torch.Tensor:
        return laid_out(reference(q, k, v, scale, hidden=out_of_sight, pse=pse), layout)

    return compare(call, check, inputs, dtype)


def packed(
    lengths: tuple[int, ...] = (4, 7, 3),
    key_lengths: tuple[int, ...] = (5, 7, 6),
    seen: Seen = lambda n, i, j, beyond: True,
    attention: Callable[..., Any] = torch_npu.npu_fusion_attention,
    encoding: bool = False,
    encoding_of: int | None = None,
    **options: Any,
) -> float:
    """TND: sequences of different lengths one after the other. `seen` has the number of the sequence, the row, the
    column, and how many more keys than queries the sequence has."""
    inputs = [torch.randn(sum(n), HEADS, WIDTH) for n in (lengths, key_lengths, key_lengths)]
    counts = [HEADS * rows * columns for rows, columns in zip(lengths, key_lengths, strict=True)]
    if encoding or encoding_of:
        inputs.append(torch.randn(encoding_of or sum(counts)))
    if "atten_mask" in options:
        options["atten_mask"] = options["atten_mask"].npu()
    ends = [[sum(n[: i + 1]) for i in range(len(n))] for n in (lengths, key_lengths)]

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pse: torch.Tensor | None = None) -> torch.Tensor:
        return attention(
            q, k, v, HEADS, "TND", pse=pse, scale=0.3, actual_seq_qlen=ends[0], actual_seq_kvlen=ends[1], **options
        )[0]

    def check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pse: torch.Tensor | None = None) -> torch.Tensor:
        parts = []
        sequences = zip(q.split(lengths), k.split(key_lengths), v.split(key_lengths), strict=True)
        encodings = pse.split(counts) if pse is not None else [None] * len(counts)
        for n, (tensors, own) in enumerate(zip(sequences, encodings, strict=True)):
            rows, columns = lengths[n], key_lengths[n]
            mask = hidden(rows, columns, lambda i, j: seen(n, i, j, columns - rows))  # noqa: B023
            heads = [t.transpose(0, 1).unsqueeze(0) for t in tensors]
            encoding = own if own is None else own.reshape(1, HEADS, rows, columns)
            parts.append(reference(*heads, 0.3, hidden=mask.reshape(rows, columns), pse=encoding)[0].transpose(0, 1))
        return torch.cat(parts)

    return compare(call, check, inputs, torch.float32)


def second(pse_type: int, layout: str = "BNSD", **options: Any) -> float:
    """npu_fusion_attention_v2: the position encoding is added before the scale (1) or after it (0)."""
    inputs = [torch.randn(2, HEADS, 9, WIDTH), *(torch.randn(2, 2, 13, WIDTH) for _ in range(2))]
    inputs.append(torch.randn(2, HEADS, 9, 13))

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pse: torch.Tensor) -> torch.Tensor:
        q, k, v = (laid_out(t, layout) for t in (q, k, v))
        return torch_npu.npu_fusion_attention_v2(
            q, k, v, HEADS, layout, pse=pse, scale=0.3, pse_type=pse_type, **options
        )[0]

    def check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pse: torch.Tensor) -> torch.Tensor:
        return laid_out(reference(q, k, v, 0.3, pse=pse if pse_type == 1 else pse / 0.3), layout)

    return compare(call, check, inputs, torch.float32)


def narrow(layout: str, **options: Any) -> float:
    """Values of fewer numbers than keys."""
    shapes = {"BNSD": (2, HEADS, 9, WIDTH), "BSND": (2, 9, HEADS, WIDTH), "TND": (18, HEADS, WIDTH)}
    inputs = [torch.randn(shapes[layout]), torch.randn(shapes[layout]), torch.randn(*shapes[layout][:-1], WIDTH // 2)]

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_fusion_attention(*tensors, HEADS, layout, scale=0.3, **options)[0]

    def check(*tensors: torch.Tensor) -> torch.Tensor:
        if layout == "BNSD":
            return reference(*tensors, 0.3)
        split = [t.reshape(2, 9, HEADS, -1).transpose(1, 2) for t in tensors]
        return reference(*split, 0.3).transpose(1, 2).reshape(*shapes[layout][:-1], -1)

    return compare(call, check, inputs, torch.float32)


def dropout(**options: Any) -> float:
    """With keys of the identity as values the result is the weights: it shows which of them this seed keeps."""
    keys, keep_prob = WIDTH, 0.75
    inputs = [torch.randn(2, HEADS, keys, WIDTH) for _ in range(3)]

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        torch.npu.manual_seed(11)
        return torch_npu.npu_fusion_attention(q, k, v, HEADS, "BNSD", scale=0.25, keep_prob=keep_prob, **options)[0]

    keep = call(inputs[0].npu(), inputs[1].npu(), torch.eye(keys).expand(2, HEADS, keys, keys).contiguous().npu()).cpu()
    kept = (keep != 0).double()
    assert abs(float(kept.mean()) - keep_prob) < 0.05, float(kept.mean())

    def check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return reference(q, k, v, 0.25, keep=kept, keep_prob=keep_prob)

    return compare(call, check, inputs, torch.float32)


def stock(dtype: torch.dtype = torch.float32, mask: torch.Tensor | None = None, **options: Any) -> float:
    """torch.nn.functional.scaled_dot_product_attention, against PyTorch's own on the CPU."""
    inputs = [torch.randn(2, HEADS, 10, WIDTH) for _ in range(3)]

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        moved = mask if mask is None else mask.npu() if mask.dtype == torch.bool else mask.to(dtype).npu()
        return F.scaled_dot_product_attention(*tensors, attn_mask=moved, **options)

    def check(*tensors: torch.Tensor) -> torch.Tensor:
        wide = mask if mask is None or mask.dtype == torch.bool else mask.to(dtype).double()
        return F.scaled_dot_product_attention(*tensors, attn_mask=wide, **options)

    return compare(call, check, inputs, dtype)


def refusal(run: Callable[[], object]) -> str:
    try:
        run()
        torch.npu.synchronize()
    except RuntimeError as error:
        return str(error)
    return ""


def refused(**options: Any) -> str:
    q = torch.randn(2, HEADS, 8, WIDTH).npu()
    options = {k: v.npu() if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    heads = options.pop("heads", HEADS)
    return refusal(lambda: torch_npu.npu_fusion_attention(q, q, q, heads, "BNSD", scale=0.1, **options))


def prefixed(sparse_mode: int, atten_mask: torch.Tensor | None = None, sizes: tuple[int, int] = (9, 9)) -> float:
    """Of the first sequence 3 keys are seen by all, of the second 7; the others from the right lower corner."""
    prefix, (rows, columns) = [3, 7], sizes
    mask = torch.stack([hidden(*sizes, lambda i, j, n=n: j <= i + columns - rows or j < n) for n in prefix])
    mask = mask.unsqueeze(1)
    given = mask if atten_mask is None else atten_mask
    return fused(sizes=sizes, sparse_mode=sparse_mode, prefix=prefix, atten_mask=given, out_of_sight=mask)


def per_sequence(heads: int) -> tuple[torch.Tensor, Seen]:
    """A mask of its own for each packed sequence, of the longest's size, and what it leaves."""
    mask = torch.rand(3, heads, 7, 7) < 0.3
    mask[..., 0] = False
    return mask, lambda n, i, j, beyond: not bool(mask[n, 0, i, j])


CASES: dict[str, Callable[[], float | str]] = {
    **{f"layout_{name}": lambda name=name: fused(layout=name) for name in ("BNSD", "BSND", "BSH", "SBH")},
    **{f"shared_{name}": lambda name=name: fused(layout=name, key_heads=2) for name in ("BNSD", "BSND", "BSH", "SBH")},
    "half": lambda: fused(torch.float16, "BSH"),
    "bfloat16": lambda: fused(torch.bfloat16, "SBH"),
    "mask": lambda: fused(
        atten_mask=(m := hidden(9, 13, lambda i, j: (i * 5 + j * 3) % 4 != 1)), out_of_sight=m, sparse_mode=1
    ),
    "mask_of_bytes_per_batch": lambda: fused(
        atten_mask=(m := torch.stack([hidden(9, 13, lambda i, j, n=n: j < i + n) for n in (1, 4)]).unsqueeze(1)).byte(),
        out_of_sight=m,
    ),
    "rows_without_keys": lambda: fused(
        atten_mask=(m := hidden(9, 13, lambda i, j: i % 3 != 1 and j > 4)), out_of_sight=m, sparse_mode=1
    ),
    "band_from_left_up": lambda: fused(
        atten_mask=(m := hidden(9, 13, lambda i, j: -3 <= j - i <= 2)), out_of_sight=m, pre_tockens=3, next_tockens=2
    ),
    "left_up_causal": lambda: fused(
        atten_mask=TRIANGLE, sparse_mode=2, out_of_sight=hidden(9, 13, lambda i, j: j <= i)
    ),
    "right_down_causal": lambda: fused(
        atten_mask=TRIANGLE, sparse_mode=3, out_of_sight=hidden(9, 13, lambda i, j: j <= i + 4)
    ),
    "right_down_causal_fewer_keys": lambda: fused(
        sizes=(13, 9), atten_mask=TRIANGLE, sparse_mode=3, out_of_sight=hidden(13, 9, lambda i, j: j <= i - 4)
    ),
    "band": lambda: fused(
        atten_mask=TRIANGLE,
        sparse_mode=4,
        pre_tockens=3,
        next_tockens=1,
        out_of_sight=hidden(9, 13, lambda i, j: -3 <= j - i - 4 <= 1),
    ),
    "prefix": lambda: prefixed(5),
    "prefix_compressed": lambda: prefixed(6, PREFIX_MATRIX),
    "prefix_more_keys": lambda: prefixed(5, sizes=(9, 13)),
    "prefix_fewer_keys": lambda: prefixed(5, sizes=(13, 9)),
    "prefix_compressed_more_keys": lambda: prefixed(6, PREFIX_MATRIX, (9, 13)),
    "prefix_compressed_fewer_keys": lambda: prefixed(6, PREFIX_MATRIX, (13, 9)),
    "position_encoding": lambda: fused(pse_shape=(2, HEADS, 9, 13)),
    "position_encoding_of_keys": lambda: fused(pse_shape=(2, HEADS, 1, 13)),
    "position_encoding_for_all": lambda: fused(pse_shape=(1, HEADS, 9, 13)),
    "packed": packed,
    "packed_causal": lambda: packed(seen=right_down, atten_mask=TRIANGLE, sparse_mode=3),
    "packed_without_keys": lambda: packed((4, 7, 3), (5, 0, 6)),
    "packed_without_queries": lambda: packed((4, 0, 3), (5, 2, 6), seen=right_down, atten_mask=TRIANGLE, sparse_mode=3),
    "packed_without_any": lambda: packed((4, 0, 3), (5, 0, 6)),
    "packed_mask": lambda: packed(
        seen=lambda n, i, j, beyond: not (j > i + 2 or j == 1),
        atten_mask=hidden(7, 7, lambda i, j: not (j > i + 2 or j == 1)),
        sparse_mode=1,
    ),
    "packed_mask_per_sequence": lambda: packed(seen=(own := per_sequence(1))[1], atten_mask=own[0], sparse_mode=1),
    "packed_mask_for_all": lambda: packed(
        seen=lambda n, i, j, beyond: j <= i,
        atten_mask=hidden(7, 7, lambda i, j: j <= i).reshape(1, 1, 7, 7),
        sparse_mode=1,
    ),
    "packed_prefix": lambda: packed(
        seen=lambda n, i, j, beyond: j <= i + beyond or j < (2, 0, 5)[n],
        atten_mask=PREFIX_MATRIX,
        sparse_mode=6,
        prefix=[2, 0, 5],
    ),
    "packed_last_is_a_band": lambda: packed(
        seen=lambda n, i, j, beyond: j <= i + beyond if n < 2 else -2 <= j - i - beyond <= -1,
        atten_mask=TRIANGLE,
        sparse_mode=7,
        pre_tockens=2,
        next_tockens=-1,
    ),
    "packed_first_is_a_band": lambda: packed(
        seen=lambda n, i, j, beyond: j <= i if n > 0 else -2 <= j - i - beyond <= -1,
        atten_mask=TRIANGLE,
        sparse_mode=8,
        pre_tockens=2,
        next_tockens=-1,
    ),
    "packed_position_encoding": lambda: packed(encoding=True),
    "narrow_BNSD": lambda: narrow("BNSD"),
    "narrow_BSND": lambda: narrow("BSND"),
    "narrow_TND": lambda: narrow("TND", actual_seq_qlen=[9, 18], actual_seq_kvlen=[9, 18]),
    **{
        f"second_{layout}_{kind}": lambda layout=layout, kind=kind: second(kind, layout)
        for layout in ("BNSD", "SBH")
        for kind in (0, 1)
    },
    "second_packed": lambda: packed(
        attention=torch_npu.npu_fusion_attention_v2, seen=right_down, atten_mask=TRIANGLE, sparse_mode=3
    ),
    "second_packed_position_encoding": lambda: packed(
        attention=torch_npu.npu_fusion_attention_v2, encoding=True, pse_type=1
    ),
    "dropout": lambda: dropout(gen_mask_parallel=False),
    "dropout_on_a_stream_of_its_own": dropout,
    "stock": stock,
    "stock_half": lambda: stock(torch.float16),
    "stock_causal": lambda: stock(is_causal=True),
    "stock_scale": lambda: stock(scale=0.7),
    "stock_mask": lambda: stock(mask=torch.ones(10, 10).tril().bool()),
    "stock_added_mask": lambda: stock(mask=torch.randn(2, HEADS, 10, 10)),
    "refused_heads": lambda: refused(heads=3),
    "refused_mask_shape": lambda: refused(atten_mask=torch.ones(8, 7).bool(), sparse_mode=1),
    "refused_mask_missing": lambda: refused(sparse_mode=1),
    "refused_compressed_shape": lambda: refused(atten_mask=torch.ones(8, 8).triu(1).bool(), sparse_mode=2),
    "refused_prefix": lambda: refused(atten_mask=PREFIX_MATRIX, sparse_mode=6, prefix=[1]),
    "refused_slopes": lambda: refusal(lambda: second(2)),
    "refused_encoding": lambda: refusal(lambda: packed((1, 2), (3, 4), encoding_of=1)),
}
ENDS_THE_DEVICE = {
    "refused_compressed_matrix": lambda: refused(atten_mask=TRIANGLE.logical_not(), sparse_mode=2),
}


def main(names: list[str]) -> None:
    cases = {**CASES, **ENDS_THE_DEVICE}
    print(json.dumps({name: cases[name]() for name in names or CASES}))


if __name__ == "__main__":
    torch.manual_seed(1)
    main(sys.argv[1:])
