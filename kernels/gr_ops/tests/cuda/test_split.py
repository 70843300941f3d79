"""Products of float32 where TF32 is allowed, of two parts each (gr_ops/cuda/split.py), against float64."""

from collections.abc import Iterator

import pytest
import torch
from cuda_cases import CASES, LENGTHS, ON_GPU, Case, assert_near
from gr_ops.cuda import split

TABLES = ("bias", "position", "time")  # whose gradients are of TF32's products
BOUND = 5e-5 if ON_GPU else 5e-6  # TF32 has 1.5e-3; the interpreter's parts are of float16
TF32 = 4e-3 if ON_GPU else 5e-6


@pytest.fixture
def allowed() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("stride", [6, 10])
def test_parts_add_up(stride, device):
    x = (torch.randn(300, stride) * 2.0 ** torch.arange(-6, -6 + stride)).to(device)[:, :6].unflatten(1, (2, 3))
    parts = split.parts(x)
    assert parts.shape == (300, 2, 2, 3)
    high, low = parts.double().unbind(1)
    kept = torch.finfo(parts.dtype)
    most = x.abs().double() * (kept.eps / 2) ** 2 + kept.smallest_normal * kept.eps / 2
    assert ((high + low - x.double()).abs() <= most).all()
    assert torch.equal(high, x.to(parts.dtype).double())


def test_parts_of_infinity(device):
    x = torch.tensor([[[float("inf"), -float("inf"), float("nan"), 3e38, 0.0, -0.0]]], device=device)
    high, low = split.parts(x).float().unbind(1)
    assert torch.equal(high.isnan(), x.isnan()) and torch.equal(high.isinf(), x.to(split.parts(x).dtype).isinf())
    assert not low.isnan()[~x.isnan()].any()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("allowed")
def test_errors_are_far_below_those_of_tf32(name, device):
    case = Case(LENGTHS, **CASES[name])
    found, wanted = case.found(device), case.expected()
    whole = [n for n, what in enumerate(["out", *case.learned]) if what not in TABLES]
    assert_near([found[n] for n in whole], [wanted[n] for n in whole], BOUND)
    tables = [n for n in range(len(found)) if n not in whole]
    assert_near([found[n] for n in tables], [wanted[n] for n in tables], TF32)


def test_float32_is_whole_without_tf32(device, monkeypatch):
    monkeypatch.setattr(split, "parts", None)
    Case((9, 4)).found(device)


@pytest.mark.usefixtures("allowed")
def test_tf32_and_float32_alone_are_in_parts(device, monkeypatch):
    calls = []
    monkeypatch.setattr(split, "parts", lambda x, parts=split.parts: calls.append(len(x)) or parts(x))
    Case((9, 4)).found(device)
    assert len(calls) == 7  # forward q, k, v; backward these and the output's gradient
    Case((9, 4), dtype=torch.float16).found(device)
    assert len(calls) == 7
