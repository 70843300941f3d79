"""Every rule of the arguments of HSTU: a RuntimeError that names the argument, the rule and the value."""

import re
from collections.abc import Callable

import pytest
import torch

ops = torch.ops.mxrec
OFFSETS = [0, 2, 6]


DEVICE = "cpu"


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype).to(DEVICE)


def side(length: int) -> torch.Tensor:
    return zeros(2, 2, length, length)


def tokens(count: int = 3, rows: int = 6, dim: int = 4, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [zeros(rows, 2, dim, dtype=dtype) for _ in range(count)]


def index(data: object, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(data, dtype=dtype).to(DEVICE)


def dense(*inputs: torch.Tensor, **settings: object) -> torch.Tensor:
    settings = {"layout": "jagged", "seqOffset": OFFSETS, **settings}
    return ops.hstu_dense(*(inputs or tokens()), **settings)


def jagged(*inputs: torch.Tensor, **settings: object) -> torch.Tensor:
    return ops.hstu_jagged(*(inputs or tokens()), **{"seq_offset": index(OFFSETS), **settings})


def normal(*inputs: torch.Tensor, **settings: object) -> torch.Tensor:
    return ops.hstu_dense(*(inputs or [zeros(2, 4, 2, 4) for _ in range(3)]), **settings)


def backward(grad: torch.Tensor, **settings: object) -> object:
    return ops.hstu_jagged_backward(grad, *tokens(), seq_offset=index(OFFSETS), **settings)


def varlen(queries: list[int], keys: list[int], **settings: object) -> torch.Tensor:
    q, (k, v) = zeros(queries[-1], 2, 4), tokens(2, keys[-1])
    return ops.hstu_varlen(q, k, v, seqOffset=index(queries), seqOffsetK=index(keys), **settings)


def paged(cache: torch.Tensor | None = None, v: torch.Tensor | None = None, **pages: object) -> torch.Tensor:
    q, k, v2 = tokens()
    pages = {"page_offsets": [0, 1, 3], "page_ids": [0, 2, 1], "last_page_len": [3, 1], **pages}
    return ops.hstu_paged(
        q,
        k,
        v2 if v is None else v,
        zeros(3, 2, 4, 2, 4) if cache is None else cache,
        seq_offset=index(OFFSETS),
        **{name: None if data is None else index(data) for name, data in pages.items()},
    )


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "layout": (lambda: dense(layout="x"), 'hstu_dense: layout .* layout must be "normal" or "jagged", got "x"'),
    "rank in normal layout": (lambda: normal(*tokens()), r"q must be 4-D \[B,S,N,D\] in normal layout, got 3-D"),
    "rank in jagged layout": (
        lambda: dense(zeros(2, 3, 2, 4), *tokens(2)),
        r"q must be 3-D \[L,N,D\] in jagged layout, got 4-D",
    ),
    "rank of v": (lambda: dense(*tokens(2), zeros(6, 8)), r"v must be 3-D \[L,N,Dv\] in jagged layout, got 2-D"),
    "rows": (lambda: dense(*tokens(1), *tokens(2, 5)), "k has 5 rows but q has 6; expected .*size"),
    "rows of v": (lambda: dense(*tokens(2), *tokens(1, 7)), "v has 7 rows but k has 6"),
    "rows in normal layout": (
        lambda: normal(zeros(2, 4, 2, 4), zeros(2, 5, 2, 4), zeros(2, 5, 2, 4)),
        "k has 5 rows but q has 4",
    ),
    "batch in normal layout": (
        lambda: normal(zeros(2, 4, 2, 4), zeros(3, 4, 2, 4), zeros(3, 4, 2, 4)),
        "k has 3 batch entries but q has 2",
    ),
    "heads": (lambda: dense(*tokens(1), zeros(6, 1, 4), zeros(6, 1, 4)), "k has 1 heads but q has 2"),
    "head dimension": (lambda: dense(*tokens(1), zeros(6, 2, 5), *tokens(1)), "k has 5 elements per head but q has 4"),
    "head dimension 0": (lambda: dense(*tokens(3, 6, 0)), "q has head dimension 0; expected D >= 1"),
    "value dimension 0": (lambda: dense(*tokens(2), zeros(6, 2, 0)), "v has head dimension 0; expected Dv >= 1"),
    "dtype": (
        lambda: dense(*tokens(3, dtype=torch.int32)),
        "q has an unsupported dtype; .*q, k, v must share one of float32/float16/bfloat16.*got Int",
    ),
    "mixed dtypes": (
        lambda: dense(*tokens(2), *tokens(1, dtype=torch.float16)),
        "v differs in dtype; .*q, k, v must share one of float32/float16/bfloat16.*got Half",
    ),
    "dtype of the bias": (
        lambda: dense(attnBias=side(4).half()),
        r"attnBias differs in dtype; .*that of q \(Float\), got Half",
    ),
    "dtype of the gradient": (lambda: backward(zeros(6, 2, 4).half()), "hstu_jagged_backward: grad differs in dtype"),
    "shape of the gradient": (lambda: backward(zeros(6, 2, 3)), "grad has 3 elements per head but v has 4"),
    "rank of the gradient": (lambda: backward(zeros(6, 8)), r"grad must be 3-D \[L,N,Dv\]"),
    "rows of the gradient": (lambda: backward(zeros(5, 2, 4)), "grad has 5 entries but q has 6"),
    "mask type": (
        lambda: dense(maskType=4),
        r"maskType must be 0 \(lower\), 1 \(upper\), 2 \(none\) or 3 \(user mask\), got 4",
    ),
    "negative mask type": (lambda: jagged(mask_type=-1), r"mask_type must be 0 \(lower\), .*, got -1"),
    "no mask": (lambda: normal(maskType=3), r"mask is missing; expected: maskType=3 needs a mask of shape \[B,N,S,S\]"),
    "dtype of the mask": (
        lambda: dense(maskType=3, mask=side(4).int()),
        "mask has an unsupported dtype; expected bool, uint8 or a floating",
    ),
    "mask of wrong batch": (
        lambda: dense(maskType=3, mask=zeros(3, 2, 4, 4)),
        r"mask must be \[2,2,M,M\] \(or 1 for batch/heads\).* got \[3, 2, 4, 4\]",
    ),
    "bias of wrong sides": (
        lambda: normal(attnBias=zeros(2, 2, 4, 5)),
        r"attnBias must be \[2,2,4,4\] \(or 1 for batch/heads\), got \[2, 2, 4, 5\]",
    ),
    "bias of wrong heads": (
        lambda: jagged(attn_bias=zeros(2, 3, 4, 4)),
        r"attn_bias must be \[2,2,M,M\] .*got \[2, 3, 4, 4\]",
    ),
    "bias of wrong rank": (lambda: jagged(attn_bias=zeros(2, 4, 4)), r"attn_bias has 3 dimensions; .*\[2, 4, 4\]"),
    "bias below maxSeqLen": (
        lambda: dense(attnBias=side(4), maxSeqLen=5),
        r"attnBias .* with M >= maxSeqLen=5, got \[2, 2, 4, 4\]",
    ),
    "bias below the longest row": (
        lambda: dense(attnBias=side(3)),
        r"attnBias must be at least as large as the longest row \(4\); .*\[2, 2, 3, 3\]",
    ),
    "mask below the longest row": (
        lambda: dense(maskType=3, mask=side(3)),
        r"mask must be at least as large as the longest row \(4\)",
    ),
    "no offsets": (lambda: dense(seqOffset=None), 'seqOffset is missing; expected: layout "jagged" needs seqOffset'),
    "no offset entries": (lambda: dense(seqOffset=index([])), r"seqOffset is empty; expected B\+1 >= 1 entries, got 0"),
    "no entries in the list": (lambda: dense(seqOffset=[]), "seqOffset is empty"),
    "rank of offsets": (lambda: dense(seqOffset=index([OFFSETS])), "seqOffset must be 1-D, got 2-D"),
    "dtype of offsets": (
        lambda: dense(seqOffset=index(OFFSETS, torch.int16)),
        "seqOffset has an unsupported dtype; expected int32 or int64, got Short",
    ),
    "floating offsets": (
        lambda: jagged(seq_offset=index([0.0, 6.0], torch.float32)),
        "seq_offset has an unsupported dtype",
    ),
    "first offset": (lambda: dense(seqOffset=index([1, 2, 6])), r"seqOffset must start at 0; .*got 1"),
    "first offset of a list": (lambda: dense(seqOffset=[1, 2, 6]), "seqOffset must start at 0"),
    "decreasing offsets": (
        lambda: dense(seqOffset=index([0, 4, 2, 6])),
        r"seqOffset must be non-decreasing: seqOffset\[2\]=2 < seqOffset\[1\]=4",
    ),
    "decreasing list": (lambda: dense(seqOffset=[0, 4, 2, 6]), r"seqOffset\[2\]=2 < seqOffset\[1\]=4"),
    "last offset": (lambda: dense(seqOffset=index([0, 2, 5])), r"seqOffset\[2\]=5 but q has 6 rows; expected 6, got 5"),
    "last offset of a list": (lambda: dense(seqOffset=[0, 2, 7]), r"seqOffset\[2\]=7 but q has 6 rows"),
    "maxSeqLen below the longest row": (
        lambda: dense(maxSeqLen=3),
        r"maxSeqLen=3 is smaller than the longest row \(4\)",
    ),
    "negative maxSeqLen": (lambda: dense(maxSeqLen=-1), "maxSeqLen is out of range; .*got -1"),
    "maxSeqLen in normal layout": (lambda: normal(maxSeqLen=5), r"maxSeqLen=5 must equal q.size\(1\)=4"),
    "scale": (lambda: dense(siluScale=float("nan")), "siluScale must be finite, got nan"),
    "infinite scale": (lambda: jagged(silu_scale=float("-inf")), "silu_scale must be finite, got -inf"),
    "alpha": (lambda: jagged(alpha=float("inf")), "alpha must be finite, got inf"),
    "counts too large": (
        lambda: jagged(num_context=index([1, 2]), num_target=index([1, 3])),
        r"num_context\[1\] \+ num_target\[1\] is too large; expected at most the 4 tokens of row 1, got 2 \+ 3",
    ),
    "negative context": (lambda: jagged(num_context=index([0, -1])), r"num_context\[1\] is negative; .*got -1"),
    "negative target": (lambda: jagged(num_target=index([-2, 0])), r"num_target\[0\] is negative; .*got -2"),
    "number of counts": (
        lambda: jagged(num_target=index([0])),
        "num_target has 1 entries; expected 2 for 2 batch rows",
    ),
    "dtype of counts": (lambda: jagged(num_target=zeros(2)), "num_target has an unsupported dtype"),
    "counts with another mask": (
        lambda: jagged(num_context=index([0, 0]), mask_type=2),
        "num_context is given for another mask; .*got 2",
    ),
    "window with another mask": (lambda: jagged(max_attn_len=3, mask_type=1), "max_attn_len is given for another mask"),
    "negative group": (lambda: jagged(target_group_size=-1), "target_group_size is negative; .*got -1"),
    "negative window": (lambda: jagged(max_attn_len=-1), "max_attn_len is negative"),
    "negative min_full": (lambda: jagged(min_full_attn_seq_len=-1), "min_full_attn_seq_len is negative"),
    "window with groups": (
        lambda: jagged(max_attn_len=3, target_group_size=2),
        r"target_group_size does not combine with max_attn_len.* \(window_size takes groups\), got 2",
    ),
    "negative distance": (lambda: jagged(window_size=-2), r"window_size is negative; expected >= 0, or -1 .*got -2"),
    "distance with another mask": (lambda: jagged(window_size=0, mask_type=2), "window_size is given for another mask"),
    "two windows": (lambda: jagged(window_size=3, max_attn_len=2), "another window than max_attn_len; .*got 2 and 0"),
    "full rows of another window": (lambda: jagged(window_size=3, min_full_attn_seq_len=2), "got 0 and 2"),
    "more queries than keys": (
        lambda: varlen([0, 3], [0, 2]),
        "hstu_varlen: row 0 has more queries than keys; expected at most 2 queries, got 3",
    ),
    "maxSeqLenK": (lambda: varlen([0, 1], [0, 4], maxSeqLenK=3), r"maxSeqLenK=3 is smaller than the longest row \(4\)"),
    "entries of seqOffsetK": (lambda: varlen([0, 1, 2], [0, 4]), "seqOffsetK has 2 entries; expected 3"),
    "page out of range": (
        lambda: paged(page_ids=[0, 3, 1]),
        r"page_ids\[1\] is out of range; expected 0 <= id < 3, got 3",
    ),
    "negative page": (lambda: paged(page_ids=[0, -1, 1]), r"page_ids\[1\] is out of range"),
    "page offsets": (lambda: paged(page_offsets=[0, 1, 2]), r"page_offsets\[2\]=2 but page_ids has 3 rows"),
    "last page": (lambda: paged(last_page_len=[3, 5]), r"last_page_len\[1\] is out of range; .*<= 4, got 5"),
    "empty last page": (lambda: paged(last_page_len=[0, 1]), r"last_page_len\[0\] is out of range"),
    "pages missing": (lambda: paged(page_ids=None), "page_ids is missing; expected kv_cache, page_offsets, page_ids"),
    "rank of the cache": (lambda: paged(zeros(3, 2, 4, 8)), r"kv_cache must be 5-D \[pages,2,page_size,N,D\], got 4-D"),
    "parts of the cache": (lambda: paged(zeros(3, 1, 4, 2, 4)), "kv_cache has wrong pages"),
    "heads of the cache": (lambda: paged(zeros(3, 2, 4, 1, 4)), "kv_cache has wrong heads; expected N=2 and D=4"),
    "values of another dimension": (lambda: paged(v=zeros(6, 2, 5)), "v has another head dimension than kv_cache"),
    "target counts disagree": (
        lambda: paged(seq_offset_t=[0, 1, 2], num_target=[1, 2]),
        "seq_offset_t and num_target disagree in row 1; expected 2, got 1",
    ),
}


@pytest.mark.usefixtures("each_device")
@pytest.mark.parametrize("name", CASES)
def test_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXREC_CHECK", "1")  # contents of device tensors are looked at on request
    call, message = CASES[name]
    with pytest.raises(RuntimeError, match=message) as raised:
        call()
    assert re.match(r"hstu_(dense|jagged|varlen|paged)(_backward)?: ", str(raised.value)), raised.value


# On the host whatever the device, so they are checked everywhere and without being asked.
LISTS = {
    "row beyond maxSeqLen": ({"maxSeqLen": 3}, r"maxSeqLen=3 is smaller than the longest row \(4\); expected 0 or at"),
    "decreasing": ({"seqOffset": [0, 5, 2, 6]}, r"seqOffset\[2\]=2 < seqOffset\[1\]=5"),
    "first": ({"seqOffset": [1, 2, 6]}, "seqOffset must start at 0"),
    "last": ({"seqOffset": [0, 2, 7]}, r"seqOffset\[2\]=7 but q has 6 rows"),
    "bias below the longest row": ({"attnBias": 3}, r"attnBias must be at least as large as the longest row \(4\)"),
    "mask below the longest row": ({"maskType": 3, "mask": 3}, r"mask must be at least as large as the longest row"),
}


@pytest.mark.usefixtures("each_device")
@pytest.mark.parametrize("name", LISTS)
def test_list_of_offsets_is_always_checked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MXREC_CHECK", raising=False)
    settings, message = LISTS[name]
    settings = {key: side(value) if key in ("attnBias", "mask") else value for key, value in settings.items()}
    with pytest.raises(RuntimeError, match=f"hstu_dense: .*{message}"):
        dense(**settings)
    q, k, v = tokens()
    full = {"mask": None, "attnBias": None, "layout": "jagged", "maskType": 0, "maxSeqLen": 0, "seqOffset": OFFSETS}
    with pytest.raises(RuntimeError, match=f"hstu_dense_backward: .*{message}"):
        ops.hstu_dense_backward(v, q, k, v, **{**full, **settings})


@pytest.mark.usefixtures("each_device")
def test_list_of_offsets_tells_the_longest_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """siluScale 0 is one over the longest row, which a list tells on every device."""
    monkeypatch.delenv("MXREC_CHECK", raising=False)
    inputs = [torch.randn(6, 2, 4).to(DEVICE) for _ in range(3)]
    torch.testing.assert_close(dense(*inputs), dense(*inputs, siluScale=1 / 4))


def test_device_is_named() -> None:
    q, k, v = tokens()
    with pytest.raises(RuntimeError, match="hstu_dense: expected v on cpu, got meta"):
        dense(q, k, v.to("meta"))
    with pytest.raises(RuntimeError, match="hstu_jagged: expected seq_offset on cpu, got meta"):
        jagged(seq_offset=index(OFFSETS).to("meta"))


@pytest.mark.usefixtures("each_device")
@pytest.mark.parametrize(("name", "widths"), [("q", (513, 4)), ("v", (4, 513))])
def test_head_dimensions_beyond_the_npu_s(name: str, widths: tuple[int, int]) -> None:
    """The CPU takes any; the operators hold 512 at most on the chip."""
    q, k, v = zeros(6, 1, widths[0]), zeros(6, 1, widths[0]), zeros(6, 1, widths[1])
    if DEVICE == "cpu":
        assert dense(q, k, v).shape == v.shape
        return
    message = f"hstu_dense: {name} has head dimension 513 on the NPU; expected at most 512, got 513"
    with pytest.raises(RuntimeError, match=message):
        dense(q, k, v)


def test_fake_tensors_are_refused_for_the_same_reasons() -> None:
    q, k, v = (x.to("meta") for x in tokens())
    with pytest.raises(RuntimeError, match="maskType must be 0"):
        dense(q, k, v, maskType=4)
    with pytest.raises(RuntimeError, match="k has 5 rows but q has 6"):
        dense(q, k[:5], v[:5])


@pytest.mark.usefixtures("each_device")
def test_what_is_allowed() -> None:
    dense(siluScale=-1.0)
    dense(maskType=2, mask=zeros(1))  # not used, so not checked
    normal(seqOffset=[7])  # ignored in normal layout
    jagged(num_context=index([1, 2]))
    jagged(num_target=index([1, 2], torch.int32), target_group_size=None, alpha=None)


@pytest.mark.parametrize("arguments", [(OFFSETS, 3.5), ("abc", 4)])
def test_wrong_python_types(arguments: tuple[object, object]) -> None:
    with pytest.raises((RuntimeError, TypeError)):
        dense(seqOffset=arguments[0], maxSeqLen=arguments[1])
