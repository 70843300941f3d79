"""Gradients of attention that the kernels for Hopper multiply by slopes, against the formulas in float64.

Without such a GPU nothing here can run (test_hopper.py).
"""

import pytest
import torch
from gr_ops.cuda.slope_codes import STEPS, ZERO
from test_hopper import BOUND, HOPPER, MASKS, Sample
from test_hopper_relative import RelativeSample

pytestmark = pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU with the versions in gr_ops/cuda/paths.py")
NAMES = ("dq", "dk", "dv", "position", "time")


def check(sample):
    """Into columns of one matrix full of NaN, as a layer has them; columns beside these stay as they are."""
    from gr_ops.cuda.hopper import launch  # needs Gluon

    problem = sample.problem()
    tokens, heads, dim = sample.q.shape
    width = heads * dim
    made = torch.full((tokens, 4 * width), torch.nan, dtype=sample.q.dtype, device="cuda")
    codes = torch.randint(0, 2 * ZERO + STEPS, (tokens, 4 * width), dtype=torch.uint8, device="cuda")
    columns = [slice(part * width, (part + 1) * width) for part in (2, 3, 1)]  # of q, k and v
    outs, slopes = ([x[:, own].unflatten(1, (heads, dim)) for own in columns] for x in (made, codes))
    found = [*outs, *(launch.gradients(problem, sample.grad, *outs, tuple(slopes)) or ())]
    factors = [(x.double() - ZERO) / STEPS for x in slopes] + [1.0, 1.0]
    rights = [right * factor for right, factor in zip(sample.expected(problem)[1:], factors)]
    sizes = [*(right.norm() for right in rights[:3]), *(x.sum().sqrt() for x in getattr(sample, "sizes", ()))]
    for name, one, right, size in zip(NAMES, found, rights, sizes):
        # All but those of queries of heads up to 128 wide are rounded before they are multiplied too.
        error = float((one.double() - right).norm() / size)
        assert error < 2 * BOUND[sample.q.dtype], (name, error)
    assert made[:, :width].isnan().all()


@pytest.mark.parametrize("name", ["causal", "one length", "groups", "a window"])
@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize("dim", [32, 64, 72, 128, 192, 256])
def test_both_directions(dim, dtype, name):
    check(Sample(dim, dtype, **MASKS[name]))


@pytest.mark.parametrize("name", ["causal", "targets"])
@pytest.mark.parametrize("dim", [64, 128])
def test_with_a_relative_bias(dim, name):
    check(RelativeSample(dim, **MASKS[name]))
