"""The check of gr_ops' kernels on images that are wrong."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gr_model.model import jagged
from smoke_tests.check import CheckFailed, Context
from smoke_tests.checks import jagged_cases, kernels

CPU = Context(Path(), Path(), {}, {"target": "cpu"})


def test_an_image_without_gr_ops_is_caught(monkeypatch):
    monkeypatch.setattr(jagged, "load_operators", lambda device: "fbgemm_gpu")
    with pytest.raises(CheckFailed, match="those of fbgemm_gpu: gr_ops is not installed"):
        kernels.run(CPU)


def test_operators_without_a_kernel_are_named(monkeypatch):
    monkeypatch.setattr(jagged, "load_operators", lambda device: "gr_ops")
    monkeypatch.setattr(kernels, "TORCH_OPERATORS", {"one": "aten::add.Tensor", "two": "aten::_cudnn_rnn"})
    with pytest.raises(CheckFailed, match="1 operators have no kernel for cpu") as failed:
        kernels.run(CPU)
    assert failed.value.details == ["aten::_cudnn_rnn"]


@pytest.mark.parametrize(
    "wrong", [torch.tensor([1.0, 2.0, 3.5]), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0, 3.0]).double()]
)
def test_a_wrong_value_shape_or_type_is_caught(monkeypatch, wrong):
    expected = np.array([1, 2, 3], np.float32)
    monkeypatch.setattr(kernels, "model_cases", lambda device: ())
    monkeypatch.setattr(kernels, "operator_cases", lambda device: ())
    cases = [("right", lambda: torch.from_numpy(expected), expected, 0.0)]
    monkeypatch.setattr(jagged_cases, "comparisons", lambda device: cases)
    assert kernels.compare(torch.device("cpu")) == 1
    cases.append(("sums", lambda: wrong, expected, 1e-5))
    with pytest.raises(CheckFailed, match="sums differs from the reference"):
        kernels.compare(torch.device("cpu"))
