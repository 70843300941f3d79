"""The checks of one sample: each is a call that must give on the NPU what it gives on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from .outcome import Outcome, is_device_error
from .transfer import NPU, Mismatch, compare, to_npu

# Their values are whatever the memory held.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
MESSAGE = 300


@dataclass
class Arguments:
    input: Any
    args: Any
    kwargs: Any

    def tree(self) -> Any:
        return (self.input, self.args, self.kwargs)

    def moved(self) -> Arguments:
        return Arguments(*to_npu(self.tree()))


Check = Callable[[Any, Any, Arguments], Any]


def forward(info: Any, sample: Any, a: Arguments) -> Any:
    return info(a.input, *a.args, **a.kwargs)


def backward(info: Any, sample: Any, a: Arguments) -> Any:
    """Gradients of a weighted sum of the results, for every input that wants one."""
    leaves = [x for x in tree_flatten(a.tree())[0] if isinstance(x, torch.Tensor) and x.requires_grad]
    results = tree_flatten(sample.output_process_fn_grad(forward(info, sample, a)))[0]
    results = [x for x in results if isinstance(x, torch.Tensor) and x.requires_grad]
    if not leaves or not results:
        raise NotImplementedError("nothing to differentiate")
    weights = [_weights(result) for result in results]
    return list(torch.autograd.grad(results, leaves, weights, allow_unused=True))


def _weights(result: torch.Tensor) -> torch.Tensor:
    numbers = torch.arange(result.numel(), dtype=torch.float32).mul(0.7).cos().add(1.5).reshape(result.shape)
    return numbers.to(result.dtype).to(result.device)


def in_place(info: Any, sample: Any, a: Arguments) -> Any:
    target = a.input.detach().clone()
    returned = info.get_inplace()(target, *a.args, **a.kwargs)
    if returned is not target:
        raise Mismatch("the in-place form does not return its operand")
    return target


def out(info: Any, sample: Any, a: Arguments) -> Any:
    with torch.no_grad():
        targets = tree_map(
            lambda x: torch.zeros_like(x) if isinstance(x, torch.Tensor) else x, forward(info, sample, a)
        )
        info(a.input, *a.args, **a.kwargs, out=targets)
    return targets


def run(info: Any, sample: Any, *, differentiable: bool) -> Outcome:
    """Runs every check that the operator has. A check that raises on the CPU does not count."""
    plain = Arguments(sample.input, sample.args, sample.kwargs)
    checks: list[tuple[str, Check, Arguments]] = [("forward", forward, plain)]
    if differentiable:
        checks.append(("backward", backward, plain))
    try:
        other = sample.noncontiguous()
        checks.append(("strided", forward, Arguments(other.input, other.args, other.kwargs)))
    except Exception:  # not every sample has a non-contiguous form
        other = None
    if info.get_inplace() is not None and isinstance(sample.input, torch.Tensor):
        checks.append(("in place", in_place, plain))
    if info.supports_out:
        checks.append(("out", out, plain))

    tested, failed, shapes_only = [], [], False
    for name, check, arguments in checks:
        try:
            moved = arguments.moved()
        except Exception as error:
            tested.append(name)
            failed.append((name, _text(error)))
            continue
        try:
            expected = check(info, sample, arguments)
        except Exception:
            continue
        tested.append(name)
        try:
            random = _compare(check, info, sample, arguments, moved, expected)
            shapes_only = shapes_only or random
        except Exception as error:
            failed.append((name, _text(error)))
            if is_device_error(failed[-1][1]):
                break  # the other checks would fail for this one's error
    return Outcome(tuple(tested), tuple(failed), shapes_only)


def _compare(check: Check, info: Any, sample: Any, cpu: Arguments, npu: Arguments, expected: Any) -> bool:
    """Whether the values had to be left out because they are random."""
    tensors = any(isinstance(leaf, torch.Tensor) for leaf in tree_flatten(npu.tree())[0])
    with nullcontext() if tensors else NPU:  # a factory without a device argument
        actual = check(info, sample, npu)
    try:
        compare(actual, expected, values=info.name not in UNINITIALISED)
        return info.name in UNINITIALISED
    except Mismatch as difference:
        if not difference.values or not _draws(check, info, sample, cpu):
            raise
    compare(actual, expected, values=False)
    return True


class _Draws(TorchDispatchMode):
    """Sees whether an operator with random results runs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen = self.seen or torch.Tag.nondeterministic_seeded in function.tags
        return function(*args, **(kwargs or {}))


def _draws(check: Check, info: Any, sample: Any, cpu: Arguments) -> bool:
    with _Draws() as mode:
        check(info, sample, cpu)
    return mode.seen


def _text(error: Exception) -> str:
    text = str(error).split("[ERROR]")[0]  # torch_npu appends a line with time and process id
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kind = "" if isinstance(error, Mismatch) else f"{type(error).__name__}: "
    return (kind + " ".join(lines))[:MESSAGE]
