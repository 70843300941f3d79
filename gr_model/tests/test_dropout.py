import pytest
import torch

from gr_model.model.dropout import Dropout


def test_dropout_from_the_host():
    dropout = Dropout(0.25)
    dropout.from_host = True
    torch.manual_seed(0)
    out = dropout(torch.ones(100_000))
    assert out.unique().tolist() == pytest.approx([0, 1 / 0.75])
    assert out.mean().item() == pytest.approx(1, abs=0.01)
    torch.manual_seed(0)
    assert torch.equal(dropout(torch.ones(100_000)), out)
    assert torch.equal(dropout.eval()(torch.ones(5)), torch.ones(5))
