"""The kernels' buckets of time, from the model's table of cells, are those of plain attention."""

import torch
import triton
import triton.language as tl
from gr_ops.cuda.relative_bias import split_times, time_bucket

from gr_model.config import ModelConfig
from gr_model.model.attention import time_buckets

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@triton.jit
def buckets(high, low, first_high, first_low, cells, out, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    query_high, query_low = tl.load(high + at), tl.load(low + at)
    found = time_bucket(query_high, query_low, tl.load(first_high), tl.load(first_low), cells)
    tl.store(out + at, found)


def test_buckets_are_those_of_plain_attention():
    """At each bucket's edge, one second beside it, and at any time, forward in time and backward."""
    count = 128
    least = time_buckets.thresholds(count)
    edges = least[1:][least[1:] < 2**47]
    drawn = (2 ** (torch.rand(1018 - 3 * len(edges), dtype=torch.float64) * 47)).long()
    since = torch.cat([edges, edges - 1, edges + 1, drawn, torch.tensor([0, 1, -1, -5, -(2**33), 2**47])])
    earlier = 12_345_678_901
    high, low = (part.to(DEVICE) for part in split_times(torch.cat([torch.zeros(1).long(), earlier + since])))
    at_first = (part.to(DEVICE) for part in split_times(torch.tensor([0, earlier])))
    found = torch.empty(len(since), dtype=torch.int32, device=DEVICE)
    first_high, first_low = (part[1:] for part in at_first)
    buckets[(1,)](
        high[1:], low[1:], first_high, first_low, time_buckets.time_cells(count, DEVICE), found, COUNT=len(since)
    )
    expected = time_buckets.time_bucket(since, ModelConfig(time_buckets=count))
    assert found.cpu().tolist() == expected.tolist()
