"""Library functions with a tiling: values against numpy in float64, and each broken use stopped with its rule.

The formulas are those of the documentation: softmax by rows, parts of rows with sums and maxima carried on, layer norm.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")

OPERAND = 16384
MOST, LEAST, FOUND = -1, -2, -3  # run_library.cpp
# What is done wrong: kShifted and the rest of run_library.cpp. BASIC is wrong for rows that are no basic block.
SHIFTED, SUMS_ARE_MAXIMA, SUMS_IN_ROWS, SCRATCH_IN_ROWS, NO_ROOM, STORE_SOURCE, STORE_PADDING, BASIC = range(1, 9)
OTHER, MORE_ROWS, OTHER_NORM = range(9, 12)
NEAR = {"float32": 1e-5, "float16": 2e-3}


@dataclass(frozen=True)
class Call:
    function: str
    types: str = "float,float"
    rows: int = 6
    columns: int = 48
    counted: int = 48
    work: int = MOST
    scratch: int = MOST
    breaks: int = 0

    def dtypes(self) -> tuple[Any, Any]:
        return tuple(np.dtype({"half": "float16"}.get(name, "float32")) for name in self.types.split(","))


def in_nz(x: Any) -> Any:
    """[m, n] as [n / 16, m, 16]."""
    return np.ascontiguousarray(x.reshape(x.shape[0], -1, 16).transpose(1, 0, 2))


@pytest.fixture(scope="session")
def run_library(program_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    program = program_of("run_library")
    file = tmp_path_factory.mktemp("library") / "operands"

    def run(call: Call, *operands: Any) -> tuple[int, bytes]:
        if call.function.endswith("Nz"):
            operands = tuple(in_nz(o) if o.shape[1] == call.columns and call.columns % 16 == 0 else o for o in operands)
        file.write_bytes(b"".join(o.tobytes().ljust(OPERAND, b"\0") for o in operands).ljust(4 * OPERAND, b"\0"))
        numbers = (call.rows, call.columns, call.counted, call.work, call.scratch, call.breaks)
        command = [str(program), call.function, call.types, *map(str, numbers), str(file)]
        done = subprocess.run(command, capture_output=True, check=False, timeout=120)
        return done.returncode, done.stdout + done.stderr

    return run


def operands(call: Call) -> list[Any]:
    """Rows, and blocks of sums and maxima, or weights of a norm."""
    r = np.random.default_rng(call.rows * 1000 + call.columns)
    kind, block = call.dtypes()
    x = r.uniform(-4, 4, (call.rows, call.columns)).astype(kind)
    if call.function in NORMS:
        return [x, *(r.uniform(-2, 2, call.columns).astype(block) for _ in range(2))]
    if call.function.removesuffix("Nz") in GRADIENTS:
        return [abs(x) / 4, r.uniform(-2, 2, x.shape).astype(kind), x]
    per = 32 // block.itemsize
    values = (r.uniform(low, high, (call.rows, 1)).astype(block) for low, high in ((1, 9), (-4, 5)))
    return [x, *(np.repeat(v, per, axis=1) for v in values)]


def expected(call: Call, x: Any, first: Any, second: Any) -> list[Any]:
    """Rows, sums or means, maxima or variances, factors; as many as the function gives."""
    call = replace(call, function=call.function.removesuffix("Nz"))
    x = x[:, : call.counted].astype(np.float64)
    if call.function.startswith("LayerNorm"):
        mean, variance = x.mean(1, keepdims=True), x.var(1, keepdims=True)
        gamma, beta = (w[: call.counted].astype(np.float64) for w in (first, second))
        gamma = 1 if call.function.endswith(("NoGamma", "Alone")) else gamma
        beta = 0 if call.function.endswith(("NoBeta", "Alone")) else beta
        rows = (x - mean) / np.sqrt(variance + 1e-3) * gamma + beta
        return [rows, mean, 1 / np.sqrt(variance + 1e-3) if call.function in BY_DEVIATION else variance]
    if call.function == "RmsNorm":
        return [x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-3) * first[: call.counted].astype(np.float64)]
    if call.function in GRADIENTS:
        gradient = first[:, : call.counted].astype(np.float64)
        total = (x * gradient).sum(1, keepdims=True)
        return [(gradient - total) * x] if call.function == "SoftmaxGrad" else [None, total]
    sums, maxima = (v[:, :1].astype(np.float64) for v in (first, second))
    if call.function == "SimpleSoftMax":
        return [np.exp(x - maxima) / sums]
    largest = x.max(1, keepdims=True)
    if call.function.endswith("Update"):
        largest = np.maximum(largest, maxima)
    e = np.exp(x - largest)
    total = e.sum(1, keepdims=True)
    factors = []
    if call.function.endswith("Update"):
        factor = np.exp(maxima - largest)
        total = factor * sums + total
        factors = [factor if "V2" in call.function else factor * sums / total]
    rows = e if "V2" in call.function else e / total
    return [rows] if call.function == "SoftMaxAlone" else [rows, total, largest, *factors]


BY_DEVIATION = ("LayerNormRstd", "LayerNormRstdNoBeta", "LayerNormRstdNoGamma", "LayerNormRstdAlone")
NORMS = ("LayerNorm", "RmsNorm", *BY_DEVIATION)
GRADIENTS = ("SoftmaxGrad", "SoftmaxGradIsFront", "SoftmaxGradFront")
SOFTMAX = ("SoftMax", "SoftMaxAlone", "SimpleSoftMax", "SoftmaxFlash", "SoftmaxFlashUpdate")
SOFTMAX += ("SoftmaxFlashV2", "SoftmaxFlashV2Update")
SHAPES = (
    {},
    {"counted": 33},
    {"rows": 1, "columns": 2048, "counted": 2047, "work": LEAST, "scratch": LEAST},
    {"rows": 40, "columns": 16, "counted": 1, "work": LEAST, "scratch": MOST},
    {"rows": 40, "columns": 16, "counted": 16, "scratch": FOUND},
)
IN_NZ = ("SoftMaxNz", "SimpleSoftMaxNz", "SoftmaxFlashV2Nz", "SoftmaxFlashV2UpdateNz", *(f"{f}Nz" for f in GRADIENTS))
NZ_SHAPES = (
    {"rows": 16},
    {"rows": 32, "counted": 33},
    {"rows": 16, "columns": 256, "counted": 239, "work": LEAST, "scratch": LEAST},
    {"rows": 48, "columns": 16, "counted": 1, "scratch": FOUND},
)
CALLS = [
    *(
        Call(f, types, **s)
        for f in IN_NZ
        for types in ("float,float", "half,half", *([] if "Grad" in f else ["half,float"]))
        for s in NZ_SHAPES
    ),
    *(Call(f, types, **s) for f in SOFTMAX for types in ("float,float", "half,half", "half,float") for s in SHAPES),
    *(
        Call(f, types, **s)
        for f in ("LayerNorm", "RmsNorm", *GRADIENTS)
        for types in ("float,float", "half,half")
        for s in SHAPES
    ),
    *(
        Call(f, types, **s)
        for f in BY_DEVIATION
        for types in ("float,float", "half,half", "half,float")
        for s in SHAPES
    ),
    *(Call(f, rows=8, columns=64, counted=64, breaks=BASIC) for f in ("RmsNorm", "SoftmaxGrad")),
    *(Call("SoftMaxByTiling", types) for types in ("float,float", "half,float")),
]


@pytest.mark.parametrize("function", sorted({call.function for call in CALLS}))
def test_library_function_gives_what_numpy_gives(run_library: Callable[..., Any], function: str) -> None:
    for call in (call for call in CALLS if call.function == function):
        given = operands(call)
        code, out = run_library(call, *given)
        assert code == 0, f"{call}: {out.decode()}"
        kind, block = call.dtypes()
        for place, wanted in enumerate(expected(call, *given)):
            if wanted is None:
                continue
            dtype = block if place in (1, 2) else kind
            if place and function in BY_DEVIATION:
                dtype = np.dtype("float32")
            result = np.frombuffer(out, dtype, offset=place * OPERAND, count=OPERAND // dtype.itemsize)
            if place == 0:
                result = result[: call.rows * call.columns]
                if function.endswith("Nz"):
                    result = result.reshape(-1, call.rows, 16).transpose(1, 0, 2)
                result = result.reshape(call.rows, -1)[:, : call.counted]
            elif function in NORMS:
                result = result[: call.rows, None]
            else:
                per = 32 // dtype.itemsize
                result = result[: call.rows * per].reshape(call.rows, per)
                wanted = np.repeat(wanted, per, axis=1)
            near = NEAR[dtype.name]
            np.testing.assert_allclose(
                result.astype(np.float64), wanted, rtol=near, atol=near, err_msg=f"{call} {place}"
            )


SOFT = Call("SoftMax")
NORM = Call("LayerNorm")
RSTD = Call("LayerNormRstd")
RMS = Call("RmsNorm")
GRAD = Call("SoftmaxGrad")
BROKEN = {
    "scratch-below-tiling": (replace(SOFT, scratch=LEAST), "E-25", "is given 224 bytes of scratch, it takes 1344"),
    "work-below-least": (replace(SOFT, work=100), "E-25", "less work space than GetSoftMaxMinTmpSize"),
    "rows-of-no-whole-blocks": (
        replace(SOFT, columns=41, counted=41),
        "E-25",
        "rows of 41 elements, 41 of them counted",
    ),
    "more-counted-than-stored": (replace(SOFT, counted=49), "E-25", "rows of 48 elements, 49 of them counted"),
    "destination-shifted": (replace(SOFT, breaks=SHIFTED), "E-27", "overlaps a source"),
    "sums-are-maxima": (replace(SOFT, breaks=SUMS_ARE_MAXIMA), "E-27", "overlaps a source"),
    "sums-in-rows": (replace(SOFT, breaks=SUMS_IN_ROWS), "E-27", "overlaps a source"),
    "scratch-in-rows": (replace(SOFT, breaks=SCRATCH_IN_ROWS), "E-27", "the scratch of SoftMax overlaps an operand"),
    "no-room-behind": (replace(SOFT, scratch=FOUND, breaks=NO_ROOM), "E-03", "finds 32 bytes of scratch"),
    "source-reused": (replace(SOFT, breaks=STORE_SOURCE), "E-16", ""),
    "padding-stored": (replace(SOFT, counted=33, breaks=STORE_PADDING), "E-16", ""),
    "no-basic-block": (replace(SOFT, breaks=BASIC), "E-25", "is no basic block"),
    "unchecked-other-shape": (replace(SOFT, breaks=OTHER), "E-25", "its tiling is for 6 of 48"),
    "nz-rows-of-no-whole-16": (Call("SoftMaxNz", rows=24), "E-25", "SoftMax of 24 rows of 48 elements in NZ"),
    "nz-columns-of-no-whole-16": (
        Call("SoftMaxNz", rows=16, columns=40, counted=40),
        "E-25",
        "SoftMax of 16 rows of 40 elements in NZ",
    ),
    "nz-padding-stored": (Call("SoftMaxNz", rows=16, counted=33, breaks=STORE_PADDING), "E-16", ""),
    "nz-source-reused": (Call("SoftMaxNz", rows=16, breaks=STORE_SOURCE), "E-16", ""),
    "nz-grad-padding-stored": (Call("SoftmaxGradNz", rows=16, counted=33, breaks=STORE_PADDING), "E-16", ""),
    "norm-scratch-below-tiling": (replace(NORM, scratch=LEAST), "E-25", "of scratch, it takes 2304"),
    "norm-work-below-least": (replace(NORM, work=100), "E-25", "less work space than GetLayerNormMaxMinTmpSize"),
    "norm-rows-of-no-whole-blocks": (
        replace(NORM, columns=41, counted=41),
        "E-25",
        "rows of 41 elements, 41 of them counted",
    ),
    "norm-destination-shifted": (replace(NORM, breaks=SHIFTED), "E-27", "overlaps a source"),
    "norm-sums-are-maxima": (replace(NORM, breaks=SUMS_ARE_MAXIMA), "E-27", "overlaps a source"),
    "norm-scratch-in-rows": (replace(NORM, breaks=SCRATCH_IN_ROWS), "E-27", "the scratch of LayerNorm overlaps"),
    "norm-no-room-behind": (replace(NORM, scratch=FOUND, breaks=NO_ROOM), "E-03", "finds 32 bytes of scratch"),
    "norm-source-reused": (replace(NORM, breaks=STORE_SOURCE), "E-16", ""),
    "rstd-scratch-below-tiling": (replace(RSTD, scratch=LEAST), "E-25", "of scratch, it takes 2304"),
    "rstd-work-below-least": (replace(RSTD, work=100), "E-25", "less work space than GetLayerNormMaxMinTmpSize"),
    "rstd-tiling-of-the-other-norm": (replace(RSTD, breaks=OTHER_NORM), "E-25", "was made without isComputeRstd"),
    "rstd-rows-of-no-whole-blocks": (replace(RSTD, columns=41, counted=41), "E-25", "rows of 41 elements"),
    "rstd-more-counted-than-stored": (replace(RSTD, counted=49), "E-25", "rows of 48 elements, 49 of them counted"),
    "rstd-more-rows-than-the-tiling": (replace(RSTD, breaks=MORE_ROWS), "E-25", "LayerNorm of 7 rows of 48 elements"),
    "rstd-other-elements": (replace(RSTD, breaks=OTHER), "E-25", "LayerNorm of 6 rows of 47 elements, its tiling is"),
    "rstd-in-place": (Call("LayerNormRstdInPlace"), "E-27", "overlaps a source"),
    "rstd-destination-shifted": (replace(RSTD, breaks=SHIFTED), "E-27", "overlaps a source"),
    "rstd-means-are-deviations": (replace(RSTD, breaks=SUMS_ARE_MAXIMA), "E-27", "overlaps a source"),
    "rstd-means-in-rows": (replace(RSTD, breaks=SUMS_IN_ROWS), "E-27", "overlaps a source"),
    "rstd-scratch-in-rows": (replace(RSTD, breaks=SCRATCH_IN_ROWS), "E-27", "the scratch of LayerNorm overlaps"),
    "rstd-no-room-behind": (replace(RSTD, scratch=FOUND, breaks=NO_ROOM), "E-03", "finds 32 bytes of scratch"),
    "rstd-padding-stored": (replace(RSTD, counted=33, breaks=STORE_PADDING), "E-16", ""),
    "rms-scratch-below-tiling": (replace(RMS, scratch=LEAST), "E-25", "is given 192 bytes of scratch, it takes 1152"),
    "rms-work-below-least": (replace(RMS, work=100), "E-25", "less work space than GetRmsNormMaxMinTmpSize"),
    "rms-rows-of-no-whole-blocks": (replace(RMS, columns=41, counted=41), "E-25", "rows of 41 elements"),
    "rms-no-basic-block": (replace(RMS, breaks=BASIC), "E-25", "RmsNorm of 6 rows of 48 elements is no basic block"),
    "rms-destination-shifted": (replace(RMS, breaks=SHIFTED), "E-27", "overlaps a source"),
    "rms-scratch-in-rows": (replace(RMS, breaks=SCRATCH_IN_ROWS), "E-27", "the scratch of RmsNorm overlaps"),
    "rms-no-room-behind": (replace(RMS, scratch=FOUND, breaks=NO_ROOM), "E-03", "finds 32 bytes of scratch"),
    "rms-padding-stored": (replace(RMS, counted=33, breaks=STORE_PADDING), "E-16", ""),
    "grad-scratch-below-tiling": (replace(GRAD, scratch=LEAST), "E-25", "of scratch, it takes 1344"),
    "grad-work-below-least": (replace(GRAD, work=100), "E-25", "less work space than GetSoftMaxGradMinTmpSize"),
    "grad-no-basic-block": (replace(GRAD, breaks=BASIC), "E-25", "is no basic block"),
    "grad-destination-shifted": (replace(GRAD, breaks=SHIFTED), "E-27", "overlaps a source"),
    "grad-scratch-in-rows": (replace(GRAD, breaks=SCRATCH_IN_ROWS), "E-27", "the scratch of SoftmaxGrad overlaps"),
    "grad-source-reused": (replace(GRAD, breaks=STORE_SOURCE), "E-16", ""),
    "grad-padding-stored": (replace(GRAD, counted=33, breaks=STORE_PADDING), "E-16", ""),
    "front-sums-in-rows": (
        Call("SoftmaxGradFront", breaks=SUMS_IN_ROWS),
        "E-27",
        "overlaps a source",
    ),
    "norm-padding-stored": (replace(NORM, counted=33, breaks=STORE_PADDING), "E-16", ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_use_is_stopped(run_library: Callable[..., Any], name: str) -> None:
    call, rule, message = BROKEN[name]
    code, out = run_library(call, *operands(call))
    assert code == 1, out[:200]
    text = out.decode()
    assert text.startswith("507015 operator ") and f"[{rule}]" in text and message in text, text
