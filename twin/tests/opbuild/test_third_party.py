"""Operators as third parties write them, built in one package and compared with numpy in float64.

A few are built and run in every test run; all of them in the slow test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from package_of import FEW, build

HERE = Path(__file__).resolve().parent / "third_party"

pytestmark = pytest.mark.twin


@dataclass(frozen=True)
class Case:
    """One operator: what a call is given, its expected result, and what must be set for it to run."""

    type: str
    snake: str
    inputs: Callable[[np.random.Generator, int], list[Any]]
    expected: Callable[..., np.ndarray]
    attributes: tuple[Any, ...] = ()
    sizes: tuple[int, ...] = (1, 7, 64, 1000, 6001)
    tolerance: float = 2e-6
    lenient: bool = False


def floats(*shape_of: Callable[[int], tuple[int, ...]], dtype: str = "float32", low: float = -3, high: float = 3):
    """Inputs between bounds; the shape follows from a size."""
    shape = shape_of[0] if shape_of else lambda n: (n,)
    return lambda r, n: [r.uniform(low, high, shape(n)).astype(dtype)]


def twice(make: Callable[[np.random.Generator, int], list[Any]]) -> Callable[[np.random.Generator, int], list[Any]]:
    return lambda r, n: [*make(r, n), *make(r, n)]


def matrix(n: int) -> tuple[int, int]:
    return (5, n)


def float64(*arrays: Any) -> list[Any]:
    return [a.astype(np.float64) if isinstance(a, np.ndarray) else a for a in arrays]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def weighted(r: np.random.Generator, n: int) -> list[np.ndarray]:
    return [r.normal(size=shape).astype(np.float32) for shape in ((5, n), (n,), (n,))]


def weighted_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    return layer_norm(x) * gamma + beta


def root_mean_square(x: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * gamma


def softmax_and_gradient(dtype: str) -> Callable[[np.random.Generator, int], list[np.ndarray]]:
    return lambda r, n: [a.astype(dtype) for a in (softmax(r.normal(size=(5, n))), r.normal(size=(5, n)))]


def softmax_gradient(y: np.ndarray, dy: np.ndarray) -> np.ndarray:
    return (dy - (y * dy).sum(-1, keepdims=True)) * y


def norm_and_gradient(dtype: str) -> Callable[[np.random.Generator, int], list[np.ndarray]]:
    """x, the result's gradient, the rows' variances and means, gamma."""

    def make(r: np.random.Generator, n: int) -> list[np.ndarray]:
        x, dy = r.normal(size=(2, 5, n)).astype(dtype)
        wide = x.astype(np.float64)
        return [x, dy, *(a.astype(dtype) for a in (wide.var(-1), wide.mean(-1), r.normal(size=n)))]

    return make


def norm_gradient(
    x: np.ndarray, dy: np.ndarray, variance: np.ndarray, mean: np.ndarray, gamma: np.ndarray
) -> np.ndarray:
    inverse = 1 / np.sqrt(variance + 1e-2)[:, None]
    normed, g = (x - mean[:, None]) * inverse, dy * gamma
    # The mean that is given is rounded, so that the normed rows' sum is not 0.
    of_mean = g.mean(-1, keepdims=True) - (g * normed).mean(-1, keepdims=True) * normed.mean(-1, keepdims=True)
    return (g - of_mean - normed * (g * normed).mean(-1, keepdims=True)) * inverse


def weight_gradients(
    x: np.ndarray, dy: np.ndarray, variance: np.ndarray, mean: np.ndarray, gamma: np.ndarray
) -> np.ndarray:
    normed = (x - mean[:, None]) / np.sqrt(variance + 1e-2)[:, None]
    return np.stack([(dy * normed).sum(0), dy.sum(0)])


def moments(x: np.ndarray) -> np.ndarray:
    return np.stack([x.mean(-1), x.var(-1)], -1)


def deviations(x: np.ndarray) -> np.ndarray:
    return np.stack([x.mean(-1), 1 / np.sqrt(x.var(-1) + 1e-3)])


def one_hot(x: np.ndarray) -> np.ndarray:
    return (x[..., None] == np.arange(6)).astype(np.float64)


def above_mean(x: np.ndarray) -> np.ndarray:
    return x > x.mean(-1, keepdims=True)


def leaky(x: np.ndarray, slope: float) -> np.ndarray:
    return np.where(x >= 0, x, x * slope)


def bfloat16(x: np.ndarray) -> np.ndarray:
    """The bits of the nearest bfloat16."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def wide(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def bfloat16s(r: np.random.Generator, n: int) -> list[np.ndarray]:
    return [bfloat16(r.uniform(0.5, 3, n)) for _ in range(3)]


def masked(r: np.random.Generator, n: int) -> list[np.ndarray]:
    return [r.normal(size=(3, n)).astype(np.float32), r.integers(0, 2, (3, n)).astype(bool)]


def products(r: np.random.Generator, n: int) -> list[np.ndarray]:
    return [r.uniform(-1, 1, (64, n)).astype(np.float16), r.uniform(-1, 1, (n, 96)).astype(np.float16)]


def tiles(r: np.random.Generator, n: int) -> list[np.ndarray]:
    """y, and x whose every third tile of 256 is zeros."""
    y, x = r.normal(size=(2, n)).astype(np.float32)
    return [y, np.where(np.arange(n) // 256 % 3 == 1, 0, x)]


def rows_and_indices(dtype: str, index: str) -> Callable[[np.random.Generator, int], list[np.ndarray]]:
    return lambda r, n: [r.normal(size=(9, n)).astype(dtype), r.integers(0, 9, 20).astype(index)]


def repeated(r: np.random.Generator, n: int) -> list[Any]:
    return [r.normal(size=(n, 1 + n % 50)).astype(np.float32), r.integers(0, 4, n)]


HALF = {"dtype": "float16"}
ROWS = (1, 5, 64, 65, 1000)
WHOLE_BLOCKS = (8, 32, 40, 256)
CASES = (
    Case("Exp", "exp", floats(), np.exp),
    Case("Exp", "exp", floats(**HALF), np.exp, tolerance=2e-3),
    Case("Log", "log", floats(low=0.1), np.log, (-1.0, 1.0, 0.0)),
    Case("Log", "log", floats(low=0.1), lambda x: np.log(2 * x + 0.5) / np.log(10), (10.0, 2.0, 0.5)),
    Case(
        "Heaviside",
        "heaviside",
        lambda r, n: [r.integers(-1, 2, n).astype(np.float32), np.array([0.25], np.float32)],
        lambda x, v: np.heaviside(x, v[0]),
    ),
    Case("LeakyReluCustom", "leaky_relu_custom", floats(), lambda x: leaky(x, 0.2), (0.2,)),
    Case("LeakyReluCustom", "leaky_relu_custom", floats(**HALF), lambda x: leaky(x, 0.2), (0.2,), tolerance=1e-3),
    Case("ClipByValue", "clip_by_value", floats(), lambda x: np.clip(x, -1, 0.5), (-1.0, 0.5)),
    Case(
        "ClipByValue",
        "clip_by_value",
        lambda r, n: [r.integers(-99, 99, n).astype(np.int32)],
        lambda x: np.clip(x, -7, 40),
        (-7, 40),
    ),
    Case("SubCustom", "sub_custom", twice(floats()), np.subtract),
    Case(
        "BitShift",
        "bit_shift",
        lambda r, n: [r.integers(-(2**31), 2**31, n).astype(np.int32)],
        lambda x: (x.astype(np.int64).astype(np.int32) << 3) >> 5,
        (3, 5),
    ),
    Case("GeluCustom", "gelu_custom", floats(), lambda x: x / (1 + np.exp(-1.702 * x))),
    Case("SigmoidCustom", "sigmoid_custom", floats(), lambda x: 1 / (1 + np.exp(-x))),
    Case("FloorCustom", "floor_custom", floats(low=-50, high=50), lambda x: x - np.floor(x / 3) * 3, tolerance=1e-5),
    Case("Reopened", "reopened", floats(), lambda x: 2 * np.maximum(x, 0)),
    Case("ReciprocalSqrt", "reciprocal_sqrt", floats(low=0.1), lambda x: 1 / np.sqrt(x)),
    Case("AddcdivCustom", "addcdiv_custom", bfloat16s, lambda x, a, b: x + 0.5 * a / b, tolerance=4e-3),
    Case("RowSum", "row_sum", floats(matrix), lambda x: x.sum(-1), sizes=ROWS, tolerance=1e-5),
    Case("RowSum", "row_sum", floats(matrix, **HALF), lambda x: x.sum(-1), sizes=ROWS, tolerance=2e-2),
    Case("ArgMax", "arg_max", floats(matrix), lambda x: x.argmax(-1), sizes=ROWS, lenient=True),
    Case(
        "ArgMax",
        "arg_max",
        lambda r, n: [np.ones((2, n), np.float32)],
        lambda x: x.argmax(-1),
        sizes=(1, 200),
        lenient=True,
    ),
    Case("SoftmaxCustom", "softmax_custom", floats(matrix), softmax, sizes=ROWS, lenient=True),
    Case("SoftmaxCustom", "softmax_custom", floats(matrix, **HALF), softmax, sizes=ROWS, tolerance=1e-3, lenient=True),
    Case("LayerNormCustom", "layer_norm_custom", floats(matrix), layer_norm, sizes=ROWS[1:], tolerance=2e-5),
    Case("LogSumExp", "log_sum_exp", floats(matrix), lambda x: np.log(np.exp(x).sum(-1)), sizes=ROWS, lenient=True),
    Case("BlockMax", "block_max", floats(matrix), lambda x: x.max(-1), sizes=(64, 128, 448)),
    Case("MseLossCustom", "mse_loss_custom", twice(floats()), lambda x, y: ((x - y) ** 2).mean(), ("mean",)),
    Case("MseLossCustom", "mse_loss_custom", twice(floats()), lambda x, y: ((x - y) ** 2).sum(), ("sum",)),
    Case("MaskedFill", "masked_fill", masked, lambda x, m: np.where(m, -1.5, x), (-1.5,), sizes=WHOLE_BLOCKS),
    Case("PowScalar", "pow_scalar", floats(), lambda x: x**2 + x**3, ("2,3",)),
    Case(
        "OneHotCustom",
        "one_hot_custom",
        lambda r, n: [r.integers(-1, 7, n).astype(np.int32)],
        lambda x: one_hot(x),
        (6,),
        sizes=(1, 9, 100),
    ),
    Case("AbsPadded", "abs_padded", floats(), np.abs, lenient=True),
    Case("AffineTemplate", "affine_template", floats(), lambda x: 2 * x, (2.0, 0.0), sizes=(1, 512, 513, 1999)),
    Case("AffineTemplate", "affine_template", floats(), lambda x: 2 * x + 0.5, (2.0, 0.5), sizes=(1, 512, 513, 1999)),
    Case(
        "AffineTemplate",
        "affine_template",
        floats(**HALF),
        lambda x: 2 * x + 0.5,
        (2.0, 0.5),
        sizes=(1, 512, 513, 1999),
        tolerance=1e-3,
    ),
    Case("EvenLanes", "even_lanes", floats(), lambda x: x[::2], sizes=(1, 8, 63, 64, 500)),
    Case("HardShrinkCustom", "hard_shrink_custom", floats(), lambda x: np.where(abs(x) > 0.75, x, 0), (0.75,)),
    Case("HardShrinkCustom", "hard_shrink_custom", floats(**HALF), lambda x: np.where(abs(x) > 0.75, x, 0), (0.75,)),
    Case(
        "TransposeBlocks",
        "transpose_blocks",
        floats(lambda n: (16, n), **HALF),
        lambda x: x.T,
        sizes=(16, 32, 400),
        tolerance=0,
    ),
    Case("SoftmaxLibrary", "softmax_library", floats(matrix), softmax, sizes=ROWS),
    Case("SoftmaxLibrary", "softmax_library", floats(matrix, **HALF), softmax, sizes=ROWS, tolerance=1e-3),
    Case("LayerNormLibrary", "layer_norm_library", weighted, weighted_norm, (1e-5,), sizes=ROWS[1:], tolerance=2e-5),
    Case(
        "RmsNormLibrary",
        "rms_norm_library",
        lambda r, n: weighted(r, n)[:2],
        root_mean_square,
        (1e-5,),
        sizes=ROWS,
        tolerance=1e-5,
    ),
    Case("SoftmaxGradLibrary", "softmax_grad_library", softmax_and_gradient("float32"), softmax_gradient, sizes=ROWS),
    Case(
        "SoftmaxGradLibrary",
        "softmax_grad_library",
        softmax_and_gradient("float16"),
        softmax_gradient,
        sizes=ROWS,
        tolerance=1e-3,
    ),
    *(
        Case(
            "LayerNormGradLibrary",
            "layer_norm_grad_library",
            norm_and_gradient(dtype),
            norm_gradient,
            (1e-2,),
            sizes=ROWS,
            tolerance=tolerance,
        )
        for dtype, tolerance in (("float32", 2e-5), ("float16", 2e-2))
    ),
    Case(
        "NormWeightsGrad",
        "norm_weights_grad",
        norm_and_gradient("float32"),
        weight_gradients,
        (1e-2,),
        sizes=ROWS,
        tolerance=2e-5,
    ),
    Case("ProductSoftmax", "product_softmax", products, lambda a, b: softmax(a @ b), sizes=(1, 16, 40), tolerance=1e-5),
    Case(
        "AttentionRows",
        "attention_rows",
        lambda r, n: [*products(r, n), r.uniform(-1, 1, (96, 40)).astype(np.float16)],
        lambda q, k, v: softmax(q @ k) @ v,
        sizes=(1, 16, 40),
        tolerance=1e-3,
    ),
    Case("RowMoments", "row_moments", floats(matrix, low=2), moments, sizes=(1, 63, 64, 65, 1000), tolerance=1e-5),
    Case("RowMoments", "row_moments", floats(matrix, **HALF), moments, sizes=(7, 128, 1000), tolerance=1e-5),
    Case("RowDeviations", "row_deviations", floats(matrix), deviations, (1e-3,), sizes=ROWS, tolerance=1e-5),
    Case("RowDeviations", "row_deviations", floats(matrix, **HALF), deviations, (1e-3,), sizes=ROWS, tolerance=1e-5),
    *(
        Case(
            "GatherRowsCustom",
            "gather_rows_custom",
            rows_and_indices(dtype, index),
            lambda x, k: x[k.astype(int)],
            sizes=ROWS,
            tolerance=0,
        )
        for dtype in ("float32", "float16")
        for index in ("int32", "int64")
    ),
    Case("AboveMean", "above_mean", floats(matrix), above_mean, sizes=(1, 7, 32, 64, 1000), tolerance=0, lenient=True),
    Case(
        "AboveMean", "above_mean", floats(matrix, **HALF), above_mean, sizes=(1, 7, 32, 320), tolerance=0, lenient=True
    ),
    Case(
        "ChooseRows",
        "choose_rows",
        lambda r, n: [*r.normal(size=(3, 1, n)).astype(np.float32)],
        lambda x, a, b: np.where(a > b, np.where(x > 0, a, b), 0.5),
        sizes=ROWS,
        tolerance=0,
        lenient=True,
    ),
    Case("AxpyInPlace", "axpy_in_place", tiles, lambda y, x: y + 0.5 * x, (0.5,)),
    Case("RepeatInterleaveCustom", "repeat_interleave_custom", repeated, lambda x, k: x.repeat(k.astype(int), 0)),
    Case(
        "RollCustom",
        "roll_custom",
        lambda r, n: [r.normal(size=n).astype(np.float32), r.integers(-2 * n, 2 * n, 1).astype(np.int32)],
        lambda x, k: np.roll(x, int(k[0])),
    ),
    Case(
        "NonZeroCustom",
        "non_zero_custom",
        lambda r, n: [r.integers(0, 2, (5, n)).astype(np.float32)],
        lambda x: np.argwhere(x),
        sizes=ROWS,
    ),
    Case("SortRows", "sort_rows", floats(matrix), lambda x: -np.sort(-x, -1), sizes=ROWS, tolerance=0),
    Case("MatmulPlain", "matmul_plain", products, np.matmul, sizes=(1, 40), tolerance=1e-5),
    Case(
        "MatmulLeaky",
        "matmul_leaky",
        products,
        lambda a, b: leaky(a @ b, 0.1),
        (0.1,),
        sizes=(32, 64, 160),
        tolerance=1e-5,
        lenient=True,
    ),
)


# Their results are of float, whatever their inputs.
PRODUCTS = ("RowMoments", "RowDeviations", "ProductSoftmax", "AttentionRows", "MatmulLeaky", "MatmulPlain")

# How inputs are given whose values the host reads.
VALUES = {
    "RepeatInterleaveCustom": lambda aclnn_host: lambda values: aclnn_host.Ints(values.tolist()),
    "RollCustom": lambda aclnn_host: aclnn_host.HostTensor,
}


@pytest.fixture
def few(vendor) -> Path:
    return vendor / "op_api/lib/libcust_opapi.so"


def argument(case: Case, value: Any, dtype: str) -> Any:
    import aclnn_host

    if case.type == "ClipByValue":
        return aclnn_host.Scalar(np.array(value, dtype))
    if case.type == "PowScalar":
        return aclnn_host.Ints([int(v) for v in value.split(",")])
    return value


def run(host, library: Path, case: Case, size: int) -> None:
    import aclnn_host

    generator = np.random.default_rng(size)
    inputs = case.inputs(generator, size)
    bits = case.type == "AddcdivCustom"
    expected = np.asarray(case.expected(*([wide(x) for x in inputs] if bits else float64(*inputs))))
    kinds = {"ArgMax": np.int32, "OneHotCustom": np.float32, "NonZeroCustom": np.int64}
    kinds["AboveMean"] = np.bool_
    kinds |= dict.fromkeys(PRODUCTS, np.float32)
    by_kernel = case.type == "NonZeroCustom"  # it gets room for the most that there can be
    shape = (inputs[0].size, 2) if by_kernel else expected.shape
    result = np.empty(shape, kinds.get(case.type, inputs[0].dtype))
    marked = [aclnn_host.Bits(x, aclnn_host.BFLOAT16) if bits else x for x in (*inputs, result)]
    if case.type in VALUES:
        marked[1] = VALUES[case.type](aclnn_host)(inputs[1])
    if by_kernel:
        marked[-1] = aclnn_host.Shaped(result)
    if case.type == "AxpyInPlace":  # its first input is its output
        result = inputs[0].copy()
        marked[0] = result
        del marked[-1]
    attributes = [argument(case, a, inputs[0].dtype.name) for a in case.attributes]
    outputs = [] if case.type == "AxpyInPlace" else [marked.pop()]
    host.call(library, case.type, *marked, *attributes, *outputs)
    result = outputs[0].result if by_kernel else result
    given = wide(result) if bits else result.astype(np.float64)
    np.testing.assert_allclose(given, expected, rtol=case.tolerance, atol=case.tolerance)


def name_of(case: Case) -> str:
    return f"{case.type}-{CASES.index(case)}"


@pytest.mark.parametrize("case", [case for case in CASES if case.snake in FEW], ids=name_of)
def test_operator_gives_what_numpy_gives(host, few, case, monkeypatch):
    if case.lenient:
        monkeypatch.setenv("TWIN_LENIENT", case.type)
    for size in case.sizes:
        run(host, few, case, size)


RULES = (("AbsPadded", "E-17"), ("LogSumExp", "E-11"), ("ChooseRows", "E-17"))


@pytest.mark.parametrize(
    ("case", "rule"),
    [(case, rule) for case in CASES for t, rule in RULES if case.type == t],
    ids=lambda value: name_of(value) if isinstance(value, Case) else value,
)
def test_what_a_padded_allocation_and_the_compiler_forgive_is_an_error_unless_asked_for(
    host, few, case, rule, monkeypatch
):
    monkeypatch.setenv("TWIN_LENIENT", "Exp,SubCustom")  # others' names
    with pytest.raises(RuntimeError, match=rf"507015: .*\[{rule}\]"):
        run(host, few, case, 7)


def test_lenient_copies_leave_what_lies_behind_a_tensor_alone(host, few, monkeypatch):
    monkeypatch.setenv("TWIN_LENIENT", "1")
    x = np.arange(-8, 8, dtype=np.float32)
    y = np.full(16, 77, np.float32)
    host.call(few, "AbsPadded", x[:11], y[:11])
    assert (y[:11] == np.abs(x[:11])).all() and (y[11:] == 77).all()


def test_a_lenient_caller_says_the_outputs_shapes(host, few, monkeypatch):
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    y = np.empty(35, bool)
    with pytest.raises(RuntimeError, match=r"161002: .*output 0 has shape \[35\], expected \[5, 7\]"):
        host.call(few, "AboveMean", x, y)
    monkeypatch.setenv("TWIN_LENIENT", "AboveMean")
    host.call(few, "AboveMean", x, y)
    np.testing.assert_array_equal(y.reshape(5, 7), above_mean(x))


def test_a_scalar_of_another_type_is_converted(host, few):
    import aclnn_host

    x = np.arange(-5, 5, dtype=np.float32)
    y = np.empty_like(x)
    host.call(few, "ClipByValue", x, aclnn_host.Scalar(np.array(-2, np.int64)), aclnn_host.Scalar(np.array(1.5)), y)
    np.testing.assert_array_equal(y, np.clip(x, -2, 1.5))


@pytest.mark.parametrize(
    ("length", "dtype", "shift", "reason"),
    [
        (2000, "float32", 0.5, "D_T_X = 0, BUFFERS = 3, HAS_SHIFT = 1: no ASCENDC_TPL_ARGS_SEL of AffineTemplate has"),
        (8, "float16", 0.0, "D_T_X = 1, BUFFERS = 1, HAS_SHIFT = 0: no ASCENDC_TPL_ARGS_SEL of AffineTemplate has"),
    ],
)
def test_template_parameters_that_are_not_selected_are_refused(host, few, length, dtype, shift, reason):
    x = np.ones(length, dtype)
    with pytest.raises(RuntimeError, match=rf"561003: .*no kernel for tiling key \d+: {reason}"):
        host.call(few, "AffineTemplate", x, 2.0, shift, np.empty_like(x))


@pytest.mark.slow
def test_every_operator_gives_what_numpy_gives(host, tmp_path, monkeypatch):
    names = {case.snake for case in CASES}
    library = build(tmp_path, names, "--any-soc") / "op_api/lib/libcust_opapi.so"
    faults = []
    for case in CASES:
        with monkeypatch.context() as patch:
            if case.lenient:
                patch.setenv("TWIN_LENIENT", case.type)
            for size in case.sizes:
                try:
                    run(host, library, case, size)
                except (AssertionError, RuntimeError) as error:
                    faults.append(f"{name_of(case)} of size {size}: {str(error)[:400]}")
    assert not faults, "\n".join(faults)
    assert len({case.snake for case in CASES}) == len(list((HERE / "op_kernel").glob("*.cpp"))) >= 20


def test_every_operator_has_a_case():
    kernels = {file.stem for file in (HERE / "op_kernel").glob("*.cpp")}
    assert kernels == {case.snake for case in CASES} == {file.stem for file in (HERE / "op_host").glob("*.cpp")}
    assert set(FEW) < kernels
    assert f"| {len(kernels)} in public idioms" in (HERE.parents[3] / "docs/twin.md").read_text()
