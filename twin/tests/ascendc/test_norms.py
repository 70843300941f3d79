"""LayerNormGrad, LayerNormGradBeta, WelfordUpdate and WelfordFinalize: values against numpy in float64, and each broken
use stopped with its rule.

The gradients are those of the documentation's formulas; that these are the gradients of layer norm is shown by
differences. Means and variances by Welford are those of the whole row.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")

OPERAND, OPERANDS = 8192, 5
MOST, LEAST, FOUND = -1, -2, -3  # run_norms.cpp, as its kinds of breaks
SHIFTED, SAME_RESULTS, SCRATCH_IN_ROWS, NO_ROOM, STORE_SOURCE, STORE_PADDING, OTHER_FORMAT, OTHER_PARTS = range(1, 9)
NEAR = {"float": 2e-5, "half": 3e-3}
EPSILON = 1e-3


@dataclass(frozen=True)
class Call:
    function: str
    type: str = "float"
    rows: int = 6
    columns: int = 48
    counted: int = 48
    work: int = MOST
    scratch: int = MOST
    breaks: int = 0

    def dtype(self) -> Any:
        return np.dtype("float16" if self.type == "half" else "float32")


@pytest.fixture(scope="session")
def run_norms(program_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    program = program_of("run_norms")
    file = tmp_path_factory.mktemp("norms") / "operands"

    def run(call: Call, *operands: Any) -> tuple[int, bytes]:
        file.write_bytes(b"".join(o.tobytes().ljust(OPERAND, b"\0") for o in operands).ljust(OPERANDS * OPERAND, b"\0"))
        numbers = (call.rows, call.columns, call.counted, call.work, call.scratch, call.breaks)
        command = [str(program), call.function, call.type, *map(str, numbers), str(file)]
        done = subprocess.run(command, capture_output=True, check=False, timeout=120)
        return done.returncode, done.stdout + done.stderr

    return run


def results(call: Call, out: bytes, dtype: Any, rows: int, columns: int) -> list[Any]:
    return [
        np.frombuffer(out, dtype, offset=i * OPERAND, count=rows * columns).reshape(rows, columns).astype(np.float64)
        for i in range(2)
    ]


def norm_operands(call: Call) -> list[Any]:
    """Gradient, rows, their variances and means, gamma."""
    r = np.random.default_rng(call.rows * 1000 + call.columns)
    dy, x = (r.uniform(-2, 2, (call.rows, call.columns)).astype(call.dtype()) for _ in range(2))
    counted = x[:, : call.counted].astype(np.float64)
    gamma = r.uniform(-2, 2, call.columns)
    return [dy, x, *(v.astype(call.dtype()) for v in (counted.var(1), counted.mean(1), gamma))]


def gradients(dy: Any, x: Any, variance: Any, mean: Any, gamma: Any) -> tuple[Any, Any]:
    """By the documentation's formulas: of the rows, and what the gradient of gamma is a sum of."""
    variance, mean, n = variance[:, None] + EPSILON, mean[:, None], x.shape[1]
    g = dy * gamma
    of_variance = (-0.5 * g * (x - mean) * variance**-1.5).sum(1, keepdims=True)
    of_mean = (-g * variance**-0.5).sum(1, keepdims=True)
    of_mean = of_mean + of_variance / n * (-2 * (x - mean)).sum(1, keepdims=True)
    return g * variance**-0.5 + of_variance * 2 / n * (x - mean) + of_mean / n, (x - mean) * variance**-0.5


SHAPES = (
    {},
    {"counted": 33},
    {"rows": 1, "columns": 1024, "counted": 1023, "work": LEAST, "scratch": LEAST},
    {"rows": 40, "columns": 16, "counted": 5, "work": LEAST, "scratch": MOST},
    {"rows": 40, "columns": 16, "counted": 16, "scratch": FOUND},
)
GRADS = [
    Call(f, type, **s)
    for f in ("LayerNormGrad", "LayerNormGradInPlace", "LayerNormGradBeta")
    for type in ("float", "half")
    for s in SHAPES
]


@pytest.mark.parametrize("call", GRADS, ids=str)
def test_gradients_of_a_norm_are_numpys(run_norms: Callable[..., Any], call: Call) -> None:
    given = norm_operands(call)
    code, out = run_norms(call, *given)
    assert code == 0, out.decode()
    dy, x, variance, mean, gamma = (v.astype(np.float64) for v in given)
    dy, x, gamma = dy[:, : call.counted], x[:, : call.counted], gamma[: call.counted]
    wanted: tuple[Any, ...] = ((dy * x).sum(0)[None], dy.sum(0)[None])
    if call.function != "LayerNormGradBeta":
        wanted = gradients(dy, x, variance, mean, gamma)
    for result, expected in zip(results(call, out, call.dtype(), len(wanted[0]), call.columns), wanted, strict=True):
        near = NEAR[call.type] * max(1, abs(expected).max())
        np.testing.assert_allclose(result[:, : call.counted], expected, rtol=NEAR[call.type], atol=near)


def test_the_formulas_are_gradients() -> None:
    r = np.random.default_rng(0)
    x, dy, gamma = r.normal(size=(3, 20)), r.normal(size=(3, 20)), r.normal(size=20)

    def loss(x: Any) -> float:
        scale = np.sqrt(x.var(1, keepdims=True) + EPSILON)
        return float(((x - x.mean(1, keepdims=True)) / scale * gamma * dy).sum())

    given, _ = gradients(dy, x, x.var(1), x.mean(1), gamma)
    for at in ((0, 0), (1, 7), (2, 19)):
        step = np.zeros_like(x)
        step[at] = 1e-5
        np.testing.assert_allclose(given[at], (loss(x + step) - loss(x - step)) / 2e-5, rtol=1e-6, atol=1e-8)


def updated(parts: Any, before: int) -> list[Any]:
    """Means and sums of squares of the first parts, element by element."""
    first = parts[:before]
    return [
        first.mean(0) if before else parts[0] * 0,
        ((first - first.mean(0)) ** 2).sum(0) if before else parts[0] * 0,
    ]


@pytest.mark.parametrize("shape", [s for s in SHAPES if s.get("rows") != 40], ids=str)
@pytest.mark.parametrize("type", ["float", "half"])
@pytest.mark.parametrize("function", ["WelfordUpdate", "WelfordUpdateInPlace"])
def test_an_update_adds_a_part(run_norms: Callable[..., Any], function: str, type: str, shape: dict[str, int]) -> None:
    call = Call(function, type, **shape)
    r = np.random.default_rng(call.columns)
    parts = r.uniform(-2, 2, (call.rows, call.columns)).astype(call.dtype()).astype(np.float64)
    before = updated(parts, call.rows - 1)
    code, out = run_norms(call, parts[-1].astype(call.dtype()), *(v.astype(np.float32) for v in before))
    assert code == 0, out.decode()
    for result, after, old in zip(
        results(call, out, np.float32, 1, call.columns), updated(parts, call.rows), before, strict=True
    ):
        wanted = np.where(np.arange(call.columns) < call.counted, after, old)  # what is behind stays as it was
        np.testing.assert_allclose(result[0], wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("counted", [48, 33, 1])
@pytest.mark.parametrize("scratch", [MOST, LEAST, FOUND])
@pytest.mark.parametrize("function", ["WelfordFinalize", "WelfordFinalizeByCounts"])
def test_the_end_gives_mean_and_variance_of_the_row(
    run_norms: Callable[..., Any], function: str, counted: int, scratch: int
) -> None:
    call = Call(function, rows=7, counted=counted, scratch=scratch)
    parts = np.random.default_rng(counted).uniform(-2, 5, (call.rows, call.columns))
    row = parts.ravel()[: (call.rows - 1) * call.columns + counted]
    seen = np.where(np.arange(call.columns) < counted, call.rows, call.rows - 1)
    columns = [parts[:n, i] for i, n in enumerate(seen)]
    means = np.array([c.mean() for c in columns], np.float32)
    squares = np.array([((c - c.mean()) ** 2).sum() for c in columns], np.float32)
    code, out = run_norms(call, means, squares, seen.astype(np.int32))
    assert code == 0, out.decode()
    mean, variance = (v[0, 0] for v in results(call, out, np.float32, 1, 1))
    np.testing.assert_allclose([mean, variance], [row.mean(), row.var()], rtol=1e-5)


GRAD, BETA = Call("LayerNormGrad"), Call("LayerNormGradBeta")
UPDATE, END = Call("WelfordUpdate"), Call("WelfordFinalize")
BROKEN = {
    "grad-scratch-below-tiling": (replace(GRAD, scratch=LEAST), "E-25", "is given 576 bytes of scratch, it takes 3456"),
    "grad-work-below-least": (replace(GRAD, work=100), "E-25", "less work space than GetLayerNormGradMaxMinTmpSize"),
    "grad-rows-of-no-whole-blocks": (replace(GRAD, columns=41, counted=41), "E-25", "rows of 41 elements"),
    "grad-more-counted": (replace(GRAD, counted=49), "E-25", "rows of 48 elements, 49 of them counted"),
    "grad-in-nz": (replace(GRAD, breaks=OTHER_FORMAT), "E-25", "only the format ND"),
    "grad-result-shifted": (replace(GRAD, breaks=SHIFTED), "E-27", "overlaps a source"),
    "grad-one-result": (replace(GRAD, breaks=SAME_RESULTS), "E-27", "overlaps a source"),
    "grad-scratch-in-rows": (replace(GRAD, breaks=SCRATCH_IN_ROWS), "E-27", "the scratch of LayerNormGrad overlaps"),
    "grad-no-room-behind": (replace(GRAD, scratch=FOUND, breaks=NO_ROOM), "E-03", "finds 32 bytes of scratch"),
    "grad-source-reused": (replace(GRAD, breaks=STORE_SOURCE), "E-16", ""),
    "grad-padding-stored": (replace(GRAD, counted=33, breaks=STORE_PADDING), "E-16", ""),
    "beta-scratch-below-tiling": (replace(BETA, scratch=LEAST), "E-25", "is given 384 bytes of scratch, it takes 2304"),
    "beta-work-below-least": (
        replace(BETA, work=100),
        "E-25",
        "less work space than GetLayerNormGradBetaMaxMinTmpSize",
    ),
    "beta-result-shifted": (replace(BETA, breaks=SHIFTED), "E-27", "overlaps a source"),
    "beta-one-result": (replace(BETA, breaks=SAME_RESULTS), "E-27", "overlaps a source"),
    "beta-scratch-in-rows": (
        replace(BETA, breaks=SCRATCH_IN_ROWS),
        "E-27",
        "the scratch of LayerNormGradBeta overlaps",
    ),
    "beta-source-reused": (replace(BETA, breaks=STORE_SOURCE), "E-16", ""),
    "beta-padding-stored": (replace(BETA, counted=33, breaks=STORE_PADDING), "E-16", ""),
    "update-of-two-rows": (replace(UPDATE, breaks=OTHER_PARTS), "E-25", "rnLength is 2, it must be 1"),
    "update-scratch-too-small": (replace(UPDATE, scratch=480), "E-25", "is given 480 bytes of scratch, it takes 512"),
    "update-more-counted": (replace(UPDATE, counted=49), "E-25", "rows of 48 elements, 49 of them counted"),
    "update-result-shifted": (replace(UPDATE, breaks=SHIFTED), "E-27", "overlaps a source"),
    "update-one-result": (replace(UPDATE, breaks=SAME_RESULTS), "E-27", "overlaps a source"),
    "update-scratch-in-rows": (
        replace(UPDATE, breaks=SCRATCH_IN_ROWS),
        "E-27",
        "the scratch of WelfordUpdate overlaps",
    ),
    "update-no-room-behind": (replace(UPDATE, scratch=FOUND, breaks=NO_ROOM), "E-03", "finds 32 bytes of scratch"),
    "update-source-reused": (replace(UPDATE, breaks=STORE_SOURCE), "E-16", ""),
    "end-of-other-parts": (
        replace(END, counted=33, breaks=OTHER_PARTS),
        "E-25",
        "a head of 34 and a tail of 15 elements",
    ),
    "end-scratch-too-small": (replace(END, scratch=480), "E-25", "is given 480 bytes of scratch, it takes 512"),
    "end-result-shifted": (replace(END, breaks=SHIFTED), "E-27", "overlaps a source"),
    "end-one-result": (replace(END, breaks=SAME_RESULTS), "E-27", "overlaps a source"),
    "end-scratch-in-rows": (replace(END, breaks=SCRATCH_IN_ROWS), "E-27", "the scratch of WelfordFinalize overlaps"),
    "end-more-stored-than-a-value": (replace(END, breaks=STORE_PADDING), "E-16", ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_use_is_stopped(run_norms: Callable[..., Any], name: str) -> None:
    call, rule, message = BROKEN[name]
    code, out = run_norms(call, *norm_operands(replace(call, counted=min(call.counted, call.columns))))
    assert code == 1, out[:200]
    text = out.decode()
    assert text.startswith("507015 operator ") and f"[{rule}]" in text and message in text, text
