import numpy as np
import pytest
import torch

from gr_model.common import draws
from gr_model.model.dropout import Dropout


def test_numbers_follow_from_user_and_place_alone():
    whole = draws.rows(7, 3, [5, 2, 9], [4, 1, 3])
    assert np.array_equal(draws.rows(7, 3, [9], [3]), whole[5:])
    assert np.array_equal(draws.rows(7, 3, [2, 5], [1, 2]), np.concatenate([whole[4:5], whole[:2]]))
    assert len(set(whole.tolist())) == 8
    for other in (draws.rows(8, 3, [5], [4]), draws.rows(7, 4, [5], [4]), draws.rows(7, 3, [6], [4])):
        assert not set(other.tolist()) & set(whole.tolist())


def test_uniform_numbers_have_the_moments_of_uniform_ones():
    """Over neighbouring users, places, streams and columns: mean, variance, and no correlation between neighbours."""
    keys = draws.rows(0, 0, list(range(200)), [50] * 200)
    x = torch.stack([draws.uniform(keys, stream, 8) for stream in range(3)]).double()
    assert x.min() >= 0 and x.max() < 1
    assert x.mean().item() == pytest.approx(0.5, abs=2e-3) and x.var().item() == pytest.approx(1 / 12, abs=1e-3)
    for a, b in ((x[:, 1:], x[:, :-1]), (x[..., 1:], x[..., :-1]), (x[1:], x[:-1]), (x[:, 50:], x[:, :-50])):
        assert abs(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1]) < 0.01


@pytest.mark.parametrize("high", [1, 6, 1000, 2**31])
def test_integers_cover_their_range_evenly(high):
    x = draws.integers(draws.rows(1, 2, list(range(300)), [20] * 300), 5, 10, high)
    assert x.min() >= 0 and x.max() < high and x.dtype == torch.int64
    if high == 6:
        assert torch.bincount(x.flatten()).tolist() == pytest.approx([10_000] * 6, rel=0.04)


def test_dropout_by_user_is_the_same_for_any_spread():
    dropout = Dropout(0.3)
    dropout.from_host, dropout.stream = True, 4
    with draws.for_rows(draws.rows(0, 9, [3, 8], [6, 4])):
        both = dropout(torch.ones(10, 50))
    with draws.for_rows(draws.rows(0, 9, [8], [4])):
        alone = dropout(torch.ones(4, 50))
    assert torch.equal(both[6:], alone)
    assert (both == 0).float().mean().item() == pytest.approx(0.3, abs=0.06)
    dropout.stream = 5
    with draws.for_rows(draws.rows(0, 9, [8], [4])):
        assert not torch.equal(dropout(torch.ones(4, 50)), alone)
