"""Which kernels take which problem, how long their choice of tiles is valid, and what a launch is looked up by."""

import dataclasses
import logging
from types import SimpleNamespace

import pytest
import torch
import triton
from gr_ops.cuda import attention, launch_cache, paths, tuning
from gr_ops.cuda.paths import Machine
from gr_ops.cuda.problem import Pages, Problem, Relative
from gr_ops.cuda.specialization import Specialization

HERE = Machine((9, 0), "2.11.0+cu130", "3.6.0", True)


SQUARE = torch.zeros(1, 1, 8, 8)
RELATIVE = Relative(*[SQUARE] * 4)


def problem(dim=128, value_dim=None, dtype=torch.bfloat16, **others):
    q = torch.empty(8, 2, dim, dtype=dtype)
    v = q if value_dim is None else torch.empty(8, 2, value_dim, dtype=dtype)
    return Problem(q=q, k=q, v=v, offsets=torch.tensor([0, 8]), longest=8, scale=1.0, **others)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dim", [32, 40, 64, 96, 128, 136, 256])
def test_hopper_takes_heads(dtype, dim):
    assert paths.refusal(problem(dim, dtype=dtype), HERE) is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dim", [32, 72, 128])
def test_hopper_takes_a_relative_bias(dtype, dim):
    counts = torch.tensor([1])
    assert paths.refusal(problem(dim, dtype=dtype, relative=RELATIVE, contexts=counts, targets=counts), HERE) is None


def test_hopper_takes_masks():
    counts = torch.tensor([1])
    assert paths.refusal(problem(contexts=counts, targets=counts, group=2, alpha=0.5), HERE) is None
    assert paths.refusal(problem(window=4, min_full=2), HERE) is None


def test_hopper_needs_no_version_of_torch_where_another_triton_compiles():
    found = dataclasses.replace(HERE, torch="2.8.0+cu128", triton="3.4.0", gluon=False, compiler="3.6.0")
    assert paths.refusal(problem(), found) is None


REFUSED = {
    "Ampere": (problem(), {"capability": (8, 0)}, "Hopper's alone"),
    "Ada": (problem(), {"capability": (8, 9)}, "Hopper's alone"),
    "Blackwell": (problem(), {"capability": (10, 0)}, "Hopper's alone"),
    "another torch": (problem(), {"torch": "2.8.0+cu128"}, "tested versions only"),
    "another triton": (problem(), {"triton": "3.4.0"}, "tested versions only"),
    "no gluon": (problem(), {"gluon": False}, "tested versions only"),
    "another compiler": (problem(), {"compiler": "3.5.0"}, "tested versions only"),
    "float32": (problem(dtype=torch.float32), {}, "float32"),
    "a dense bias": (problem(dense=SQUARE), {}, "bias"),
    "a relative bias and a window": (problem(relative=RELATIVE, window=4), {}, "a relative bias and a window"),
    "a relative bias of wide heads": (problem(136, relative=RELATIVE), {}, "gradients of wider heads"),
    "upper": (problem(mask_type=1), {}, "lower"),
    "none": (problem(mask_type=2), {}, "lower"),
    "the user's": (problem(mask_type=3, mask=SQUARE), {}, "lower"),
    "a window by distance": (problem(distance=4), {}, "by distance"),
    "a window by distance of none": (problem(distance=0), {}, "by distance"),
    "keys of their own": (problem(key_offsets=torch.tensor([0, 8])), {}, "fewer queries"),
    "pages": (problem(pages=Pages(*[SQUARE] * 4)), {}, "fewer queries"),
    "two widths": (problem(64, 128), {}, "one width"),
    "odd width": (problem(36), {}, "16 bytes"),
    "narrow": (problem(24), {}, "32 to 256"),
    "wide": (problem(264), {}, "32 to 256"),
    "deterministic": (problem(deterministic=True), {}, "any order"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_triton_keeps(name):
    p, others, why = REFUSED[name]
    assert why in paths.refusal(p, dataclasses.replace(HERE, **others))


def test_triton_keeps_deterministic_algorithms_but_of_wide_heads():
    assert paths.refusal(problem(136, deterministic=True), HERE) is None
    torch.use_deterministic_algorithms(True)
    try:
        assert "any order" in paths.refusal(problem(), HERE)
        assert paths.refusal(problem(136), HERE) is None
    finally:
        torch.use_deterministic_algorithms(False)


def test_every_rule_is_needed():
    """Without it some problem above would be taken."""
    for rule in paths.RULES[:-1]:  # the last: 2^31 tokens
        cases = [(p, dataclasses.replace(HERE, **m)) for p, m, _ in REFUSED.values()]
        rest = [other for other in paths.RULES if other is not rule]
        assert any(rule.refuses(p, m) and not any(other.refuses(p, m) for other in rest) for p, m in cases), rule.why


@pytest.mark.parametrize(("version", "lines"), [("3.4.0", 1), ("3.6.0", 0)])
def test_the_log_says_once_that_hopper_has_another_version(version, lines, monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch, "__version__", "2.11.0+cu130")
    monkeypatch.setattr(triton, "__version__", version)
    monkeypatch.setattr(paths.importlib.util, "find_spec", lambda name: name)
    paths.machine.cache_clear()
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            paths.machine(0)
    paths.machine.cache_clear()
    assert len(caplog.records) == lines
    assert all(f"triton {version}" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(("dtype", "fast"), [(torch.bfloat16, True), (torch.float16, True), (torch.float32, False)])
def test_sixteen_bits_take_the_fast_sigmoid(dtype, fast):
    """One instruction for both: its error is no more than half of theirs."""
    tensor = SimpleNamespace(dtype=dtype, is_cuda=True, shape=(8, 2, 64))
    p = Problem(q=tensor, k=tensor, v=tensor, offsets=torch.tensor([0, 8]), longest=8, scale=1.0)
    assert attention.specialize(p).fast is fast


class Tuner:
    """In place of Triton's: it keeps what it was asked for."""

    made: list["Tuner"] = []

    def __init__(self, *_, **__):
        self.launches = 0
        self.best_config = triton.Config({"Q": 16 * (1 + len(Tuner.made))}, num_warps=4, num_stages=1)
        Tuner.made.append(self)

    def __getitem__(self, grid):
        def launch(*_, **__):
            self.launches += 1

        return launch


class Kernel(triton.JITFunction):
    arg_names = ("q", "S", "Q")

    def __init__(self):
        pass


def test_tiles_are_chosen_for_their_lengths(monkeypatch):
    """Tiles that were the fastest for 200 tokens are not taken for 8,000."""
    Tuner.made, launched = [], []
    monkeypatch.setattr(tuning, "Autotuner", Tuner)
    monkeypatch.setattr(
        launch_cache, "launch", lambda kernel, grid, key, arguments, device, **options: launched.append(arguments[-1])
    )
    tuned = tuning.Tuned(Kernel(), [], lambda *_: 0)
    q = torch.empty(1)
    q = SimpleNamespace(device=SimpleNamespace(index=0), dtype=q.dtype, data_ptr=q.data_ptr)
    for longest in (200, 8000, 130, 7000, 8000):
        tuned.at((1,), False, longest)(q, S=Specialization(2, 16, 16, 16, 16))
    assert [tuner.launches for tuner in Tuner.made] == [1, 1]
    assert launched == [16, 32, 32]


def test_a_launch_is_found_by_all_that_triton_compiles_for():
    x = torch.empty(64, dtype=torch.float16)
    base = launch_cache.of_values((x, 32, 0.5))
    assert launch_cache.of_values((x.clone(), 48, 0.25)) == base
    for other in ((x[1:], 32, 0.5), (x, 33, 0.5), (x, 1, 0.5), (x.float(), 32, 0.5), (x, 2**40, 0.5), (x, 32, 1)):
        assert launch_cache.of_values(other) != base
