"""Random numbers on the NPU. Prints {check: bool}; `random_numbers.py digest` prints what a seeded run drew."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

NPU = "npu:0"

DRAWS: dict[str, Callable[[], torch.Tensor]] = {
    "randn": lambda: torch.randn(1000, device=NPU),
    "rand": lambda: torch.rand(1000, device=NPU),
    "randint": lambda: torch.randint(0, 1000, (1000,), device=NPU),
    "randperm": lambda: torch.randperm(100, device=NPU),
    "normal_": lambda: torch.empty(100, device=NPU).normal_(2, 3),
    "bernoulli_": lambda: torch.empty(1000, device=NPU).bernoulli_(0.3),
    "multinomial": lambda: torch.multinomial(torch.ones(50, device=NPU), 20),
    "rand_like": lambda: torch.rand_like(torch.empty(100, device=NPU)),
    "dropout": lambda: F.dropout(torch.ones(1000, device=NPU), 0.25),
}


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.equal(left.cpu(), right.cpu())


def repeats(draw: Callable[[], torch.Tensor], seed: Callable[[int], object]) -> bool:
    """The same seed gives the same values, the next draw and another seed give others."""
    seed(7)
    first, next_draw = draw().cpu(), draw().cpu()
    seed(7)
    again = draw().cpu()
    seed(8)
    other = draw().cpu()
    return same(first, again) and not same(first, next_draw) and not same(first, other)


def explicit_generator() -> bool:
    generator = torch.Generator(device=NPU).manual_seed(3)
    before = torch.npu.get_rng_state()
    first = torch.rand(100, device=NPU, generator=generator)
    untouched = same(before, torch.npu.get_rng_state())
    second = torch.rand(100, device=NPU, generator=generator)
    generator.manual_seed(3)
    return untouched and same(first, torch.rand(100, device=NPU, generator=generator)) and not same(first, second)


def state_round_trip() -> bool:
    torch.npu.manual_seed(1)
    torch.rand(3, device=NPU)
    state = torch.npu.get_rng_state()
    first = torch.randn(50, device=NPU)
    torch.npu.set_rng_state(state)
    return same(first, torch.randn(50, device=NPU))


def offset_advances_by_fours() -> bool:
    generator = torch.Generator(device=NPU).manual_seed(5)

    def offset() -> int:
        return int.from_bytes(bytes(generator.get_state()[8:16].tolist()), "little")

    offsets = [offset()]
    for _ in range(3):
        torch.rand(3, device=NPU, generator=generator)
        offsets.append(offset())
    steps = [b - a for a, b in zip(offsets, offsets[1:])]
    return all(step > 0 and step % 4 == 0 for step in steps)


def cpu_generator_is_untouched() -> bool:
    torch.manual_seed(11)
    state = torch.get_rng_state()
    for draw in DRAWS.values():
        draw()
    return same(state, torch.get_rng_state())


def devices_are_independent() -> bool:
    torch.npu.manual_seed_all(5)
    first = torch.rand(10, device="npu:1")
    torch.rand(10, device="npu:0")
    torch.npu.manual_seed_all(5)
    torch.rand(10, device="npu:0")
    torch.rand(10, device="npu:0")
    return same(first, torch.rand(10, device="npu:1"))


def checkpoint_repeats_dropout() -> bool:
    weight = torch.ones(1000, device=NPU, requires_grad=True)
    out = checkpoint(lambda w: F.dropout(w, 0.5), weight, use_reentrant=False, preserve_rng_state=True)
    out.sum().backward()
    assert weight.grad is not None
    return same(weight.grad, out.detach())


def dropout_keeps_and_scales() -> bool:
    out = F.dropout(torch.ones(100_000, device=NPU), 0.25).cpu()
    kept = out != 0
    return bool(abs(kept.float().mean() - 0.75) < 0.01 and torch.allclose(out[kept], torch.tensor(4 / 3)))


def moments() -> bool:
    normal, uniform = torch.randn(100_000, device=NPU).cpu(), torch.rand(100_000, device=NPU).cpu()
    near = abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02 and abs(uniform.mean() - 0.5) < 0.01
    return bool(near and uniform.min() >= 0 and uniform.max() < 1)


CHECKS: dict[str, Callable[[], bool]] = {
    "explicit_generator": explicit_generator,
    "state_round_trip": state_round_trip,
    "offset_advances_by_fours": offset_advances_by_fours,
    "cpu_generator_is_untouched": cpu_generator_is_untouched,
    "devices_are_independent": devices_are_independent,
    "checkpoint_repeats_dropout": checkpoint_repeats_dropout,
    "dropout_keeps_and_scales": dropout_keeps_and_scales,
    "moments": moments,
}


def main() -> None:
    if sys.argv[1:] == ["digest"]:
        torch.npu.manual_seed(42)
        print(json.dumps({name: draw().cpu().double().sum().item() for name, draw in DRAWS.items()}))
        return
    report = {name: check() for name, check in CHECKS.items()}
    for name, draw in DRAWS.items():
        report[f"manual_seed {name}"] = repeats(draw, torch.manual_seed)
        report[f"npu.manual_seed {name}"] = repeats(draw, torch.npu.manual_seed)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
