"""Single vector instructions against numpy: count, leading mask, mask by bits and counter mode, with strides.

The references follow the documentation's rule of addresses: lane l of repeat r lies in block l // lanes-per-block.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sort_references import BYTES, SORTS, with_sorted_input

np = pytest.importorskip("numpy")

TYPES = {"float": "float32", "half": "float16", "int32": "int32"}


@dataclass(frozen=True)
class Call:
    """One instruction, and its numbers as run_calls.cpp takes them."""

    name: str
    type: str
    form: str = "count"
    count: int = 0
    bits: tuple[int, int] = (0, 0)
    repeat: int = 0
    dst: tuple[int, int] = (1, 8)
    left: tuple[int, int] = (1, 8)
    right: tuple[int, int] = (1, 8)
    extra: int = 0
    scalar: float = 0.0
    low: float = field(default=-4.0, compare=False)

    def line(self, buffers: list[Any]) -> str:
        numbers = [self.count, *self.bits, self.repeat, *self.dst, *self.left, *self.right, self.extra, self.scalar]
        return " ".join([self.name, self.type, self.form, *map(str, numbers), *(b.tobytes().hex() for b in buffers)])


def buffers(call: Call) -> list[Any]:
    r = np.random.default_rng(zlib.crc32(repr(call).encode()))
    source, _, target = call.type.partition(">")
    made = []
    for name in (target or source, source, source):
        kind = {"bfloat16": "uint16", "int8": "int8"}.get(name) or TYPES[name]
        n = BYTES // np.dtype(kind).itemsize
        values = r.uniform(call.low, 4, n) if kind.startswith("float") else r.integers(-99, 99, n)
        made.append(np.asarray(values).astype(kind))
    return with_sorted_input(call, made) if call.name in SORTS else made


def lanes(call: Call, size: int) -> list[tuple[int, int]]:
    """(repeat, lane) pairs that work, for elements of `size` bytes."""
    per = 256 // size
    if call.form in ("count", "counter"):
        return [divmod(i, per) for i in range(call.count)]
    on = [lane < call.count for lane in range(per)]
    if call.form == "bits":
        on = [bool(call.bits[lane // 64] >> (lane % 64) & 1) for lane in range(per)]
    return [(r, lane) for r in range(call.repeat) for lane in range(per) if on[lane]]


def at(call: Call, side: str, repeat: int, lane: int, size: int) -> int:
    block, rep = getattr(call, side) if call.form != "count" else (1, 8)
    return (32 * (repeat * rep + lane // (32 // size) * block) + lane % (32 // size) * size) // size


def elementwise(f: Callable[..., Any]) -> Callable[[Call, Any, Any, Any], Any]:
    """f(dst, src0, src1, scalar) on each lane, in the element's type."""

    def reference(call: Call, d: Any, a: Any, b: Any) -> Any:
        out = d.copy()
        size = max(d.itemsize, a.itemsize)
        for r, lane in lanes(call, size):
            i, j, k = (at(call, side, r, lane, x.itemsize) for side, x in (("dst", d), ("left", a), ("right", b)))
            x, y = (np.float64(v) if d.dtype.kind == "f" else v for v in (a[j], b[k % len(b)]))
            out[i] = f(np.float64(d[i]) if d.dtype.kind == "f" else d[i], x, y, d.dtype.type(call.scalar))
        return out

    return reference


def reduced(call: Call, d: Any, a: Any, b: Any) -> Any:
    out = d.copy()
    found = lanes(call, a.itemsize)
    rep = call if call.form != "count" else None
    values = [a[at(call, "left", r, lane, a.itemsize)] for r, lane in found]
    per = 256 // a.itemsize
    if call.name == "ReduceSum":
        out[0] = np.sum(np.float64(values))
        return out
    best = int(np.argmax(values) if call.name == "ReduceMax" else np.argmin(values))
    out[0] = values[best]
    if call.extra:
        index = found[best][0] * per + found[best][1] if rep else best
        out.view({2: "uint16", 4: "uint32"}[a.itemsize])[1] = index
    return out


def per_repeat(call: Call, d: Any, a: Any, b: Any) -> Any:
    out = d.copy()
    size = a.itemsize
    words = out.view({2: "uint16", 4: "uint32"}[size])
    for r in range(call.repeat):
        mine = [lane for repeat, lane in lanes(call, size) if repeat == r]
        values = np.array([a[at(call, "left", r, lane, size)] for lane in mine], a.dtype)
        if call.name == "WholeReduceSum":
            out[r * call.dst[1]] = np.sum(np.float64(values))
            continue
        best = int(np.argmax(values) if call.name == "WholeReduceMax" else np.argmin(values))
        step = r * call.dst[1]
        if call.extra == 3:
            out.view("uint32")[step] = mine[best]
        elif call.extra == 2:
            out[step] = values[best]
        else:
            out[2 * step + call.extra] = values[best]
            words[2 * step + 1 - call.extra] = mine[best]
    return out


def per_block(call: Call, d: Any, a: Any, b: Any) -> Any:
    out = d.copy()
    size, per = a.itemsize, 32 // a.itemsize
    group = 2 if call.name == "PairReduceSum" else per
    groups: dict[tuple[int, int], list[Any]] = {}
    for r, lane in lanes(call, size):
        groups.setdefault((r, lane // group), []).append(np.float64(a[at(call, "left", r, lane, size)]))
    reduce = {"Sum": np.sum, "Max": np.max, "Min": np.min}[call.name[-3:]]
    for (r, which), values in groups.items():
        unit = 128 // size if call.name == "PairReduceSum" else 8
        out[r * call.dst[1] * unit + which] = reduce(values)
    return out


COMPARE = (np.less, np.greater, np.equal, np.less_equal, np.greater_equal, np.not_equal)


def compared(call: Call, d: Any, a: Any, b: Any) -> Any:
    out = d.view("uint8").copy()
    size, per = a.itemsize, 256 // a.itemsize
    whole = call.count if call.form == "count" else call.repeat * per
    for i in range(whole):
        r, lane = divmod(i, per)
        x = a[at(call, "left", r, lane, size)]
        y = b[at(call, "right", r, lane, size)] if call.name == "Compare" else a.dtype.type(call.scalar)
        bit = np.uint8(1 << i % 8)
        out[i // 8] = out[i // 8] | bit if COMPARE[call.extra](x, y) else out[i // 8] & ~bit
    return out.view(d.dtype)


def selected(call: Call, d: Any, a: Any, b: Any) -> Any:
    out = d.copy()
    size, per = a.itemsize, 256 // a.itemsize
    bits = np.unpackbits(b.view("uint8"), bitorder="little")
    for r, lane in lanes(call, size):
        first = bits[lane if call.extra == 0 else r * per + lane]
        other = a.dtype.type(call.scalar) if call.extra == 1 else b[at(call, "right", r, lane, size)]
        out[at(call, "dst", r, lane, size)] = a[at(call, "left", r, lane, size)] if first else other
    return out


def compared_to_register(call: Call, d: Any, a: Any, b: Any) -> Any:
    out = d.view("uint8").copy()
    bits = np.unpackbits(out[:16], bitorder="little")
    for r, lane in lanes(call, a.itemsize):
        sides = (x[at(call, side, r, lane, a.itemsize)] for side, x in (("left", a), ("right", b)))
        bits[lane] = COMPARE[call.extra](*sides)
    out[:16] = np.packbits(bits, bitorder="little")
    return out.view(d.dtype)


def filled(call: Call, d: Any, a: Any, b: Any) -> Any:
    out = d.copy()
    for r, lane in lanes(call, d.itemsize):
        i = r * (256 // d.itemsize) + lane
        value = call.scalar if call.name == "Duplicate" else call.scalar + i * (call.extra or 1)
        out[at(call, "dst", r, lane, d.itemsize)] = value
    return out


def broadcast_blocks(call: Call, d: Any, a: Any, b: Any) -> Any:
    out, per = d.copy(), 32 // d.itemsize
    for i in range(8 * call.repeat):
        start = (i // 8 * call.dst[1] + i % 8 * call.dst[0]) * per
        out[start : start + per] = a[i]
    return out


def gathered(call: Call, d: Any, a: Any, b: Any) -> Any:
    out, size = d.copy(), a.itemsize
    per = call.count or 256 // size
    pattern = np.unpackbits(b.view("uint8"), bitorder="little")
    every = {1: (2, 0), 2: (2, 1), 3: (4, 0), 4: (4, 1), 5: (4, 2), 6: (4, 3), 7: (1, 0)}.get(call.extra, (1, 0))
    found = []
    for r in range(call.repeat):
        for lane in range(per):
            if lane % every[0] == every[1] if call.extra else pattern[r * call.right[1] * 256 + lane]:
                block = r * call.left[1] + lane // (32 // size) * call.left[0]
                found.append(a[block * (32 // size) + lane % (32 // size)])
    out[: len(found)] = found
    return out


def transposed(call: Call, d: Any, a: Any, b: Any) -> Any:
    out = d.copy()
    out[:256] = a[:256].reshape(16, 16).T.ravel()
    return out


def transposed_blocks(call: Call, d: Any, a: Any, b: Any) -> Any:
    """The sixteen blocks are the rows of a matrix; its columns, one behind the other, fill the blocks of dst."""
    out = d.copy()
    per = (16 if call.type == "int8" else 32) // d.itemsize
    into, source = out.reshape(-1, 32 // d.itemsize), a.reshape(-1, 32 // d.itemsize)
    high, low = (per if call.extra & half else 0 for half in (2, 1))
    for repeat in range(call.repeat):
        rows = source[[i * call.left[0] + repeat * call.left[1] for i in range(16)], high : high + per]
        places = [i * call.dst[0] + repeat * call.dst[1] for i in range(16)]
        into[places, low : low + per] = rows.T.reshape(16, per)
    return out


def away(x: Any) -> Any:
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def rounded(call: Call, x: float, kind: str) -> Any:
    """x in units of the last place of its target, rounded, and back."""
    spread = {"float32": 24, "float16": 11, "uint16": 8}.get(kind)
    unit = 1.0 if spread is None or call.type == "float>float" else 2.0 ** (np.frexp(x)[1] - spread)
    if kind == "float16":
        unit = max(unit, 2.0**-24)
    steps = x / unit
    low = np.floor(steps)
    odd = steps if steps == low else low if low % 2 else low + 1
    return unit * (np.rint, np.rint, np.floor, np.ceil, away, np.trunc, lambda _: odd)[call.extra](steps)


def converted(call: Call, d: Any, a: Any, b: Any) -> Any:
    out = d.copy()
    size = max(d.itemsize, a.itemsize)
    for r, lane in lanes(call, size):
        i = at(call, "dst", r, lane, d.itemsize) if call.form != "count" else r * (256 // size) + lane
        j = at(call, "left", r, lane, a.itemsize) if call.form != "count" else r * (256 // size) + lane
        value = rounded(call, float(a[j]), d.dtype.name)
        out[i] = np.float32(value).view("uint32") >> 16 if call.type.endswith("bfloat16") else value
    return out


def relu(d: Any, a: Any, b: Any, s: Any) -> Any:
    return max(a, type(a)(0))


REFERENCES = {
    "Add": elementwise(lambda d, a, b, s: a + b),
    "Sub": elementwise(lambda d, a, b, s: a - b),
    "Mul": elementwise(lambda d, a, b, s: a * b),
    "Div": elementwise(lambda d, a, b, s: a / b),
    "Max": elementwise(lambda d, a, b, s: max(a, b)),
    "Min": elementwise(lambda d, a, b, s: min(a, b)),
    "Adds": elementwise(lambda d, a, b, s: a + s),
    "Muls": elementwise(lambda d, a, b, s: a * s),
    "Maxs": elementwise(lambda d, a, b, s: max(a, s)),
    "Mins": elementwise(lambda d, a, b, s: min(a, s)),
    "LeakyRelu": elementwise(lambda d, a, b, s: a if a >= 0 else a * s),
    "Relu": elementwise(relu),
    "Abs": elementwise(lambda d, a, b, s: abs(a)),
    "Exp": elementwise(lambda d, a, b, s: np.exp(a)),
    "Ln": elementwise(lambda d, a, b, s: np.log(a)),
    "Sqrt": elementwise(lambda d, a, b, s: np.sqrt(a)),
    "Rsqrt": elementwise(lambda d, a, b, s: 1 / np.sqrt(a)),
    "Reciprocal": elementwise(lambda d, a, b, s: 1 / a),
    "Axpy": elementwise(lambda d, a, b, s: d + a * np.float64(s)),
    "MulAddDst": elementwise(lambda d, a, b, s: d + a * b),
    "FusedMulAdd": elementwise(lambda d, a, b, s: d * a + b),
    "ShiftLeft": elementwise(lambda d, a, b, s: np.int32(np.int64(a) << 3)),
    "ShiftRight": elementwise(lambda d, a, b, s: a >> 3),
    "Copy": elementwise(lambda d, a, b, s: a),
    **dict.fromkeys(("ReduceSum", "ReduceMax", "ReduceMin"), reduced),
    **dict.fromkeys(("WholeReduceSum", "WholeReduceMax", "WholeReduceMin"), per_repeat),
    **dict.fromkeys(("BlockReduceSum", "BlockReduceMax", "BlockReduceMin", "PairReduceSum"), per_block),
    **dict.fromkeys(("Compare", "CompareScalar"), compared),
    **dict.fromkeys(("Duplicate", "CreateVecIndex", "ArithProgression"), filled),
    "CompareRegister": compared_to_register,
    **dict.fromkeys(("Select", "SelectRegister"), selected),
    "Brcb": broadcast_blocks,
    "GatherMask": gathered,
    "Transpose": transposed,
    "TransDataTo5HD": transposed_blocks,
    **SORTS,
    "Cast": converted,
}

EXACT = ("Cast", "Copy", "Compare", "CompareScalar", "CompareRegister", "Select", "SelectRegister", *SORTS)
EVERY_THIRD = int("1001" * 16, 2)


def forms(name: str, kind: str, **more: Any) -> list[Call]:
    """All four forms: with gaps between blocks and repeats, and with one repeat read again and again."""
    high = EVERY_THIRD if kind == "half" else 0
    strides = {"dst": (1, 9), "left": (1, 8), "right": (0, 8)}
    return [
        Call(name, kind, "count", 100, **more),
        Call(name, kind, "mask", 37, repeat=4, **(strides | more)),
        Call(name, kind, "bits", bits=(EVERY_THIRD, high), repeat=3, dst=(2, 16), left=(1, 0), right=(1, 8), **more),
        Call(name, kind, "counter", 333, **more),
    ]


ARITHMETIC = ("Add", "Sub", "Mul", "Max", "Min")
SCALARS = ("Adds", "Muls", "Maxs", "Mins")
CALLS = [
    *(c for kind in TYPES for name in ARITHMETIC for c in forms(name, kind)),
    *(c for kind in TYPES for name in SCALARS for c in forms(name, kind, scalar=3)),
    *(c for kind in TYPES for c in forms("Relu", kind)),
    *(c for kind in ("float", "half") for name in ("Abs", "LeakyRelu", "Axpy") for c in forms(name, kind, scalar=0.5)),
    *(c for kind in ("float", "half") for name in ("Exp", "MulAddDst", "FusedMulAdd") for c in forms(name, kind)),
    *(c for k in ("float", "half") for n in ("Ln", "Sqrt", "Rsqrt", "Reciprocal", "Div") for c in forms(n, k, low=0.2)),
    *(c for name in ("ShiftLeft", "ShiftRight") for c in forms(name, "int32", scalar=3)),
    *(c for kind in TYPES for name in ("Duplicate", "CreateVecIndex") for c in forms(name, kind, scalar=7)[:3]),
    *(c for kind in TYPES for c in forms("Copy", kind)[1:]),
    *(Call("ArithProgression", kind, count=50, scalar=5, extra=3) for kind in TYPES),
    *(Call("Brcb", kind, repeat=2, dst=(1, 9)) for kind in TYPES),
    Call("Transpose", "half"),
    *(
        Call(f"Reduce{n}", k, "count", c)
        for k in ("float", "half")
        for n in ("Sum", "Max", "Min")
        for c in (1, 64, 333)
    ),
    *(Call(f"Reduce{n}", k, "count", 333, extra=1) for k in ("float", "half") for n in ("Max", "Min")),
    *(Call("ReduceSum", k, "mask", 37, repeat=5, left=(1, 3)) for k in ("float", "half")),
    *(Call(f"Reduce{n}", k, "mask", 37, repeat=5, extra=1) for k in ("float", "half") for n in ("Max", "Min")),
    *(Call("ReduceMax", k, "bits", bits=(6, 0), repeat=5, left=(1, 4), extra=1) for k in ("float", "half")),
    *(Call("WholeReduceSum", k, "mask", 37, repeat=5, dst=(1, 1), left=(1, 6)) for k in ("float", "half")),
    *(
        Call(f"WholeReduce{n}", k, form, 20, (EVERY_THIRD, 0), 4, (1, step), extra=order)
        for k in ("float", "half")
        for n in ("Max", "Min")
        for form in ("mask", "bits")
        for order, step in ((0, 1), (1, 2), (2, 1), (3, 1))
    ),
    *(
        Call(f"{n}", k, form, 20, (EVERY_THIRD, 0), 3, (1, 2), (1, 8))
        for k in ("float", "half")
        for n in ("BlockReduceSum", "BlockReduceMax", "BlockReduceMin", "PairReduceSum")
        for form in ("mask", "bits")
    ),
    *(
        Call(name, k, form, 384, (1, 0), 3, left=(1, 8), right=(0, 8), extra=mode, scalar=0.5)
        for k in ("float", "half")
        for name in ("Compare", "CompareScalar")
        for form in ("count", "bits")
        for mode in range(6)
    ),
    *(
        Call("Select", k, form, 256, (EVERY_THIRD, 0), 3, extra=mode, scalar=2)
        for k in ("float", "half")
        for form in ("count", "bits")
        for mode in range(3)
    ),
    *(Call("Select", k, "count", 203, extra=mode, scalar=2) for k in ("float", "half") for mode in range(3)),
    *(
        call
        for k in ("float", "half")
        for mode in range(6)
        for call in (
            Call("CompareRegister", k, "mask", 37, repeat=1, left=(2, 8), right=(0, 8), extra=mode),
            Call("CompareRegister", k, "bits", bits=(EVERY_THIRD, 5 * (k == "half")), repeat=1, extra=mode),
            Call("CompareRegister", k, "counter", 50, repeat=1, extra=mode),
        )
    ),
    *(
        call
        for k in ("float", "half")
        for mode in range(3)
        for call in (
            Call("SelectRegister", k, "mask", 37, repeat=3, dst=(1, 9), left=(1, 4), extra=mode, scalar=2),
            Call("SelectRegister", k, "bits", bits=(EVERY_THIRD, 0), repeat=3, extra=mode, scalar=2),
            Call("SelectRegister", k, "counter", 300, extra=mode, scalar=2),
        )
    ),
    *(
        call
        for k in ("float", "half", "int8")
        for given in range(3)
        for halves in (range(4) if k == "int8" else (0,))
        for call in (
            Call("TransDataTo5HD", k, repeat=1, dst=(1, 0), left=(1, 0), extra=halves, scalar=given),
            Call("TransDataTo5HD", k, repeat=4, dst=(2, 32), left=(4, 1), extra=halves, scalar=given),
        )
    ),
    *(Call("GatherMask", k, repeat=3, left=(1, 8), extra=p) for k in TYPES for p in range(1, 8)),
    *(Call("GatherMask", k, count=70, repeat=2, left=(1, 12), extra=2) for k in TYPES),
    *(Call("GatherMask", k, repeat=3, left=(1, 8), right=(1, 1)) for k in TYPES),
    *(
        call
        for k in ("float", "half")
        for call in (
            Call("Sort32", k, repeat=1),
            Call("Sort32", k, repeat=9),
            Call("Sort", k, repeat=5),
            Call("Sort", k, repeat=5, extra=1),
            Call("Extract", k, repeat=7),
            Call("Gatherb", k, repeat=3, dst=(1, 9)),
            Call("Gatherb", k, repeat=2, dst=(2, 16)),
            Call("MrgSort", k, count=3, repeat=1, dst=(100, 7), extra=896),
            Call("MrgSort", k, count=7, repeat=1, dst=(31, 90), left=(64, 0), extra=896),
            Call("MrgSort", k, count=15, repeat=1, dst=(100, 1), left=(33, 128), extra=896),
            Call("MrgSort", k, count=15, repeat=1, dst=(100, 20), left=(33, 128), extra=896, scalar=1),
            Call("MrgSort", k, count=15, repeat=3, dst=(32, 32), left=(32, 32), extra=896),
        )
    ),
    *(Call("Cast", t, "count", 200, extra=mode) for t in ("float>half", "float>bfloat16") for mode in range(1, 6)),
    Call("Cast", "float>half", "count", 200, extra=6),
    *(Call("Cast", t, "count", 200, extra=mode) for t in ("float>int32", "float>float") for mode in range(1, 6)),
    *(Call("Cast", "half>int8", "count", 200, extra=mode) for mode in range(6)),
    *(Call("Cast", "float>half", "mask", 50, repeat=3, dst=(1, 4), left=(1, 8), extra=1) for _ in range(1)),
    *(Call("Cast", "half>float", "bits", bits=(EVERY_THIRD, 0), repeat=3, dst=(1, 9), left=(1, 4)) for _ in range(1)),
    Call("Cast", "int32>float", "counter", 150),
]


@pytest.fixture(scope="session")
def results(run_calls: Callable[[Path], list[str]], tmp_path_factory: pytest.TempPathFactory) -> dict[Call, str]:
    file = tmp_path_factory.mktemp("calls") / "calls"
    file.write_text("".join(call.line(buffers(call)) + "\n" for call in CALLS))
    return dict(zip(CALLS, run_calls(file), strict=True))


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_instruction_gives_what_numpy_gives(results: dict[Call, str], name: str) -> None:
    calls = [call for call in CALLS if call.name == name]
    assert calls
    for call in calls:
        assert not results[call].startswith("!"), f"{call}: {results[call]}"
        d, a, b = buffers(call)
        given = np.frombuffer(bytes.fromhex(results[call]), d.dtype)
        with np.errstate(all="ignore"):
            expected = REFERENCES[name](call, d, a, b)
        if d.dtype.kind == "f":
            exact = name in EXACT or name.startswith("Whole")
            near = {"float32": 4e-6, "float16": 4e-3}[d.dtype.name] * (0 if exact and "Sum" not in name else 1)
            same = np.isclose(given, expected, rtol=near, atol=near, equal_nan=True)
            same |= given.view(f"u{d.itemsize}") == expected.view(f"u{d.itemsize}")
        else:
            same = given == expected
        wrong = np.flatnonzero(~same)
        assert wrong.size == 0, f"{call}: element {wrong[0]} is {given[wrong[0]]}, expected {expected[wrong[0]]}"
