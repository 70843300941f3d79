"""torch.ops.mxrec.hstu_* of CUDA tensors against the formulas in float64, and against what the CPU's operators do."""

import math

import pytest
import time_buckets
import torch
from cuda_cases import CASES, LENGTHS, ON_GPU, Case, assert_near
from gr_ops.cuda.arguments import Arguments


@pytest.mark.parametrize("name", CASES)
def test_output_and_gradients_equal_the_formula(name, device):
    case = Case(LENGTHS, **CASES[name])
    assert_near(case.found(device), case.expected())


@pytest.mark.parametrize("name", ["causal", "contexts and targets", "relative, contexts and targets"])
@pytest.mark.parametrize("width", [16, 64, 128] if ON_GPU else [16])
def test_tiles_of_the_size_that_is_used(name, width, device, monkeypatch):
    """Of the first shape that fits, as where bits must repeat."""
    monkeypatch.undo()
    lengths, contexts = ((300, 129, 128), (130, 0, 2)) if ON_GPU else ((66, 64, 9), (65, 0, 2))
    counts = {} if name == "causal" else {"contexts": contexts, "targets": (1, 3, 7)}
    case = Case(lengths, width=width, value_width=width, **CASES[name] | counts | {"heads": 1})
    assert_near(case.found(device, True), case.expected())


@pytest.mark.parametrize("name", ["causal", "contexts and targets", "relative, contexts and targets"])
def test_half_precision_is_as_near_as_its_rounding(name, device):
    """bfloat16 on a GPU; the interpreter of Triton 3.2 takes its bits for numbers, so float16 there."""
    dtype, bound = (torch.bfloat16, 6e-3) if ON_GPU else (torch.float16, 1e-3)
    case = Case((33, 12, 2), dtype=dtype, **CASES[name] | {"contexts": (3, 0, 1), "targets": (5, 2, 1)})
    assert_near(case.found(device), case.expected(), bound)


@pytest.mark.parametrize(
    "most", [{"group": 2**31 - 1}, {"window": 2**31 - 1}, {"window": 2**40, "whole": 2**31 - 1}], ids=str
)
def test_numbers_of_tokens_beyond_all_rows(most, device):
    """Of a width and a type that the kernels for Hopper take: several tiles of rows, which are added to."""
    dtype, bound = (torch.bfloat16, 6e-3) if ON_GPU else (torch.float16, 1e-3)
    lengths, targets = ((400, 129, 128), (290, 7, 3)) if ON_GPU else ((40, 25, 16), (25, 2, 0))
    case = Case(lengths, width=32, value_width=32, dtype=dtype, **most | {"targets": targets})
    assert_near(case.found(device), case.expected(), bound)


def test_layouts_are_the_same_problem(device):
    """[B, S, N, D] and [L, N, D], offsets as a list and as a tensor, and the backward operators called by hand."""
    case = Case((9, 9, 9), heads=2, scale=1 / 9)
    t = {name: x.to(device) for name, x in case.tensors.items()}
    q, k, v, grad = (t[name] for name in ("q", "k", "v", "grad"))
    out, *wanted = case.expected()
    square = [x.unflatten(0, (3, 9)) for x in (q, k, v, grad)]
    assert_near([torch.ops.mxrec.hstu_dense(*square[:3]).flatten(0, 1)], [out])
    offsets = [0, 9, 18, 27]
    for given in (offsets, torch.tensor(offsets, device=device)):
        found = torch.ops.mxrec.hstu_dense(q, k, v, None, None, 0, 9, 0.0, "jagged", given)
        assert_near([found], [out])
        *found, none = torch.ops.mxrec.hstu_dense_backward(grad, q, k, v, None, None, "jagged", 0, 9, 0.0, given)
        assert_near(found, wanted)
        assert none.shape == (0,)
    *found, _ = torch.ops.mxrec.hstu_dense_backward(square[3], *square[:3], None, None, "normal", 0, 0)
    assert_near([x.flatten(0, 1) for x in found], wanted)
    *found, _ = torch.ops.mxrec.hstu_jagged_backward(
        grad, q, k, v, None, None, 0, 9, 0.0, torch.tensor(offsets, device=device)
    )
    assert_near(found, wanted)


@pytest.mark.parametrize("name", ["contexts and targets", "a bias for heads", "relative, contexts and targets"])
def test_the_same_bits_every_time(name, device):
    case = Case((40, 7, 2, 1, 1) if ON_GPU else (20, 7, 2, 1, 1), **CASES[name] | {"contexts": None, "targets": None})
    first, second = case.found(device, True), case.found(device, True)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", ["contexts and targets", "a bias for heads", "relative, contexts and targets"])
def test_registration(name, device):
    """Schemas, fake kernels, autograd and traces agree with what the kernels do."""
    case = Case((5, 3), **CASES[name] | {"contexts": (1, 1), "targets": (2, 1)})
    t = {name: x.to(device) for name, x in case.tensors.items()}
    for learned in case.learned:
        t[learned] = t[learned].detach().contiguous().requires_grad_()
    offsets, contexts, targets = case.arguments(device)
    if case.relative:
        op = torch.ops.mxrec.hstu_relative.default
        arguments = (
            t["q"],
            t["k"],
            t["v"],
            t["position"],
            t["time"],
            t["times"],
            time_buckets.cells(device),
            offsets,
            contexts,
            targets,
            1,
            5,
            0.1,
        )
    else:
        op = torch.ops.mxrec.hstu_jagged.equal
        arguments = (t["q"], t["k"], t["v"], None, t.get("bias"), 0, 5, 0.1, offsets, contexts, targets, 1, 0.5)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(op, arguments, test_utils=checks if ON_GPU else checks[:3])


# What is wrong, and how hstu_jagged says so on the CPU; those of the second part look inside offsets and counts.
WRONG = {
    "q must be 3-D": {"q": lambda x: x[0]},
    "k has 7 rows": {"k": lambda x: x[1:]},
    "differs in dtype": {"v": lambda x: x.half()},
    "q has an unsupported dtype": {"q": lambda x: x.long()},
    "mask_type is unknown": {"mask_type": lambda _: 4},
    "mask is missing": {"mask_type": lambda _: 3},
    "silu_scale must be finite": {"scale": lambda _: math.nan},
    "seq_offset is missing": {"offsets": lambda _: None},
    "num_target has 3 entries": {"targets": lambda x: x.repeat(2)[:3]},
    "target_group_size is negative": {"group": lambda _: -1},
    "alpha must be finite": {"alpha": lambda _: math.inf},
}
WRONG_INSIDE = {
    "must start at 0": {"offsets": lambda x: x + 1},
    "must be non-decreasing": {"offsets": lambda x: x.flip(0) - x.flip(0)[0]},
    "but q has 8 rows": {"offsets": lambda x: (x - 1).clamp(min=0)},
    "smaller than the longest row": {"longest": lambda _: 2},
    "num_target.1. is negative": {"targets": lambda x: x - 2},
    "is too large": {"contexts": lambda x: x + 5},
}


def wrong_arguments(change, device):
    a = {
        "q": torch.randn(8, 2, 16),
        "k": torch.randn(8, 2, 16),
        "v": torch.randn(8, 2, 16),
        "mask": None,
        "bias": None,
        "mask_type": 0,
        "longest": 5,
        "scale": 0.1,
        "offsets": torch.tensor([0, 5, 8]),
        "contexts": torch.tensor([1, 1]),
        "targets": torch.tensor([2, 1]),
        "group": 1,
        "alpha": 1.0,
    }
    a |= {name: value(a[name]) for name, value in change.items()}
    return [x.to(device) if isinstance(x, torch.Tensor) else x for x in a.values()]


def said(call):
    with pytest.raises(RuntimeError) as caught:
        call()
    return str(caught.value).splitlines()[0].replace("cuda:0", "cpu")


@pytest.mark.parametrize("words", WRONG)
def test_bad_arguments(words, device):
    assert words in said(lambda: torch.ops.mxrec.hstu_jagged(*wrong_arguments(WRONG[words], device)))


@pytest.mark.parametrize("words", WRONG_INSIDE)
def test_bad_contents(words, monkeypatch):
    """The same words as on the CPU. Without a GPU the CPU's operator is asked by hand, as the kernels do."""
    monkeypatch.setenv("MXREC_CHECK", "1")
    arguments = wrong_arguments(WRONG_INSIDE[words], "cuda" if ON_GPU else "cpu")
    op = torch.ops.mxrec.hstu_jagged.equal
    call = op if ON_GPU else lambda *_: Arguments(op, tuple(arguments)).look_if_asked()
    expected = said(lambda: op(*wrong_arguments(WRONG_INSIDE[words], "cpu")))
    assert words.replace(".1.", "[1]") in expected
    assert said(lambda: call(*arguments)) == expected


def test_bad_tables(device):
    case = Case((5, 3), relative=True)
    wrong = {
        "position": [("half", "position does not fit"), (slice(3), "position has 3 distances")],
        "times": [(slice(4), "times does not fit")],
        "time": [("half", "time does not fit")],
    }
    for name, faults in wrong.items():
        for change, words in faults:
            t = {key: x.to(device) for key, x in case.tensors.items()}
            t[name] = t[name].half() if change == "half" else t[name][change]
            with pytest.raises(RuntimeError, match=words):
                case.call(t, device)


@pytest.mark.parametrize("name", ["causal", "a bias for all", "relative, contexts and targets"])
def test_nothing_in_and_nothing_out(name, device):
    for lengths in ((), (0, 0)):
        counts = (0,) * len(lengths)
        case = Case(lengths, **CASES[name] | {"contexts": counts, "targets": counts})
        out, *found = case.found(device)
        assert out.shape == (0, case.heads, 16)
        assert all(float(x.abs().sum()) == 0.0 for x in found)
