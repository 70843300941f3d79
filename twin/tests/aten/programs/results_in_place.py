"""Operators that write their result into the NPU's memory. Prints {operator: "" or what went wrong}.

The geometry of a result is worked out before the operator runs: dtype, sizes and strides must be those that the CPU's
own result has, for operands that are permuted, broadcast, of other dtypes, of no elements. No memory of the host is
taken for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

LARGE = 512  # rows and columns of what is looked for in the host's allocations
Maker = Callable[[], Iterator[tuple[Any, ...]]]


def one() -> Iterator[tuple[Any, ...]]:
    x = torch.rand(3, 4, 5) + 0.5
    yield from ((x,), (x.permute(2, 0, 1),), (x[:, ::2],), (x.to(torch.bfloat16),), (torch.arange(1, 5),))
    yield from ((x[:0],), (x[0, 0, 0],), (torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),))


def two() -> Iterator[tuple[Any, ...]]:
    x, y = torch.rand(2, 3, 4, 5).unbind()
    yield from ((x, y), (x.permute(2, 0, 1), y.permute(2, 0, 1)), (x[:, :1], y[:1]), (x[0], y.transpose(0, 1)[:, :1]))
    yield from ((x, y[0, 0, 0].double()), (x.half(), y), (x[:0], y[:0]), (x, torch.arange(1, 6)))
    yield (x.transpose(0, 2), y.transpose(0, 2).contiguous())


def floats() -> Iterator[tuple[Any, ...]]:
    return (case for case in one() if case[0].is_floating_point())


def gradients() -> Iterator[tuple[Any, ...]]:
    return ((x, x.flip(0)) for (x,) in floats())


def with_scalar() -> Iterator[tuple[Any, ...]]:
    yield from two()
    yield from ((torch.rand(3, 4), 2.5), (torch.arange(4), 2), (torch.arange(4), 1.5))


def products() -> Iterator[tuple[Any, ...]]:
    a, b = torch.rand(6, 7), torch.rand(7, 5)
    yield from (
        (a, b),
        (a.T.contiguous().T, b.T.contiguous().T),
        (a[:0], b),
        (a[:, :0], b[:0]),
        (a.double(), b.double()),
    )


def batches() -> Iterator[tuple[Any, ...]]:
    a, b = torch.rand(3, 6, 7), torch.rand(3, 7, 5)
    yield from (
        (a, b),
        (a.transpose(0, 1).contiguous().transpose(0, 1), b),
        (a[:0], b[:0]),
        (a.bfloat16(), b.bfloat16()),
    )


def added() -> Iterator[tuple[Any, ...]]:
    for a, b in products():
        yield from ((torch.rand(5, dtype=a.dtype), a, b), (torch.rand(len(a), 1, dtype=a.dtype), a, b))


def chosen() -> Iterator[tuple[Any, ...]]:
    mask = torch.rand(3, 4, 5) > 0.5
    yield from ((torch.rand(torch.broadcast_shapes(x.shape, y.shape)) > 0.5, x, y) for x, y in two())
    yield from (
        (mask.permute(2, 0, 1), torch.rand(5, 3, 4), torch.rand(())),
        (mask, torch.rand(3, 4, 5), torch.arange(5)),
    )
    yield (mask[0], torch.rand(3, 4, 5), torch.rand(5))


def joined() -> Iterator[tuple[Any, ...]]:
    x = torch.rand(3, 4, 5)
    yield from (([x, x[:1]], 0), ([x, x.half()], 2), ([x.permute(2, 0, 1)] * 2, -1), ([torch.empty(0), x], 1))
    yield ([torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)] * 2, 1)


def rows() -> Iterator[tuple[Any, ...]]:
    x, index = torch.rand(4, 5, 6), torch.tensor([2, 0, 2])
    yield from ((x, 0, index), (x.permute(2, 0, 1), -1, index), (x, 1, index[:0]), (x.half(), 2, index.int()))
    yield from ((x, 0, index[0]), (torch.rand(()), 0, torch.tensor([0])))


def places() -> Iterator[tuple[Any, ...]]:
    x = torch.rand(4, 5)
    yield from ((x, 0, torch.zeros(2, 5, dtype=torch.int64)), (x.T, 1, torch.ones(3, 2, dtype=torch.int64)))


def along() -> Iterator[tuple[Any, ...]]:
    return ((x, -1) for (x,) in floats() if x.dim())


def sizes() -> Iterator[tuple[Any, ...]]:
    yield from (((3, 4),), ((),), ((0, 2),))


aten, functional = torch.ops.aten, torch.nn.functional
OPERATORS: dict[str, tuple[Callable[..., torch.Tensor], Maker]] = {
    "add": (torch.add, with_scalar),
    "sub": (torch.sub, with_scalar),
    "mul": (torch.mul, with_scalar),
    "div": (torch.div, with_scalar),
    "maximum": (torch.maximum, two),
    "minimum": (torch.minimum, two),
    "where": (torch.where, chosen),
    "mm": (torch.mm, products),
    "bmm": (torch.bmm, batches),
    "addmm": (torch.addmm, added),
    "exp": (torch.exp, one),
    "log": (torch.log, one),
    "neg": (torch.neg, one),
    "sqrt": (torch.sqrt, one),
    "rsqrt": (torch.rsqrt, one),
    "sigmoid": (torch.sigmoid, one),
    "silu": (functional.silu, floats),
    "tanh": (torch.tanh, one),
    "sigmoid_backward": (aten.sigmoid_backward, gradients),
    "silu_backward": (aten.silu_backward, gradients),
    "tanh_backward": (aten.tanh_backward, gradients),
    "softmax": (torch.softmax, along),
    "log_softmax": (torch.log_softmax, along),
    "cat": (torch.cat, joined),
    "gather": (torch.gather, places),
    "index_select": (torch.index_select, rows),
}


def to_npu(value: Any) -> Any:
    """As a copy keeps them: strides of the device's tensors are those of the host's."""
    if isinstance(value, torch.Tensor):
        npu = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="npu")
        return npu.copy_(value)
    return [to_npu(v) for v in value] if isinstance(value, list) else value


def compare(given: torch.Tensor, expected: torch.Tensor) -> None:
    assert given.device.type == "npu", given.device
    for what in ("dtype", "shape"):
        assert getattr(given, what) == getattr(expected, what), (what, given.dtype, given.shape, expected.dtype)
    assert given.numel() == 0 or given.stride() == expected.stride(), (given.stride(), expected.stride())
    torch.testing.assert_close(given.cpu(), expected, rtol=0, atol=0, equal_nan=True)


def host_bytes(run: Callable[[], object]) -> int:
    """The largest allocation of the host's memory while it runs."""
    run()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    events = seen.profiler.kineto_results.events()
    taken = [e.nbytes() for e in events if e.name() == "[memory]" and e.device_type() == torch.autograd.DeviceType.CPU]
    return max(taken, default=0)


def check(function: Callable[..., torch.Tensor], maker: Maker) -> None:
    for case in maker():
        moved = [to_npu(value) for value in case]
        compare(function(*moved), function(*case))


def check_zeros() -> None:
    for (size,) in sizes():
        for dtype in (None, torch.int32, torch.bool):
            compare(torch.zeros(size, dtype=dtype, device="npu"), torch.zeros(size, dtype=dtype))


def in_place(name: str) -> None:
    x = torch.rand(LARGE, LARGE).npu()
    index, mask = torch.arange(LARGE).npu(), x > 0.5
    calls: dict[str, Callable[[], torch.Tensor]] = {
        "where": lambda: torch.where(mask, x, x),
        "bmm": lambda: torch.bmm(x[None], x[None]),
        "addmm": lambda: torch.addmm(x, x, x),
        "softmax": lambda: torch.softmax(x, -1),
        "log_softmax": lambda: torch.log_softmax(x, -1),
        "cat": lambda: torch.cat([x, x]),
        "gather": lambda: torch.gather(x, 0, index[None].expand(LARGE, LARGE)),
        "index_select": lambda: torch.index_select(x, 0, index),
        "zeros": lambda: torch.zeros(LARGE, LARGE, device="npu"),
    }
    if name in calls:
        run = calls[name]
    else:
        function, maker = OPERATORS[name]
        count = len(next(maker()))
        run = lambda: function(*[x] * count)  # noqa: E731
    taken = host_bytes(run)
    assert taken < x.nbytes // 2, f"the host gave {taken} bytes for a result of {x.nbytes}"


def outcome(name: str) -> str:
    torch.manual_seed(1)
    try:
        check_zeros() if name == "zeros" else check(*OPERATORS[name])
        in_place(name)
    except Exception as fault:
        return f"{type(fault).__name__}: {fault}"
    return ""


NAMES = [*OPERATORS, "zeros"]

if __name__ == "__main__":
    print(json.dumps({name: outcome(name) for name in NAMES}))
