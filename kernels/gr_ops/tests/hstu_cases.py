"""Random problems for the HSTU operators: one description, from which both the call and the reference are made."""

from dataclasses import dataclass

import hstu_reference as reference
import numpy as np
import torch

# Relative errors that docs/operators.md allows: of fp32, fp16 and bf16 compute, and of the fp64 path.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float64: 1e-12}


@dataclass(frozen=True)
class Case:
    lengths: tuple[int, ...]
    heads: int = 2
    dim: int = 8
    value_dim: int = 8
    dtype: torch.dtype = torch.float32
    mask_type: int = 0
    mask_dtype: torch.dtype | None = None  # None: dtype
    mask_shape: tuple[bool, bool] = (True, True)  # has a batch, a heads dimension
    bias: tuple[bool, bool] | None = None  # likewise; None: no bias
    spare: int = 0  # by how much the sides of mask and bias exceed the longest row
    scale: float = 0.0
    alpha: float = 1.0
    context: tuple[int, ...] | None = None
    target: tuple[int, ...] | None = None
    group: int = 0
    window: int = 0
    min_full: int = 0
    distance: int = -1
    index_dtype: torch.dtype = torch.int64
    seed: int = 0

    @property
    def side(self) -> int:
        return max(self.lengths, default=0) + self.spare

    @property
    def offsets(self) -> list[int]:
        return [0, *np.cumsum(self.lengths, dtype=int).tolist()]


class Problem:
    """The tensors of a case, on the CPU: q, k, v, grad, mask, bias."""

    def __init__(self, case: Case) -> None:
        self.case = case
        rng = np.random.default_rng(case.seed)
        total, batch, side = case.offsets[-1], len(case.lengths), case.side

        def uniform(*shape: int) -> torch.Tensor:
            return torch.from_numpy(rng.uniform(-1, 1, shape)).to(case.dtype)

        def square(has_batch: bool, has_heads: bool) -> torch.Tensor:
            return uniform(batch if has_batch else 1, case.heads if has_heads else 1, side, side)

        self.q, self.k = uniform(total, case.heads, case.dim), uniform(total, case.heads, case.dim)
        self.v, self.grad = uniform(total, case.heads, case.value_dim), uniform(total, case.heads, case.value_dim)
        self.bias = None if case.bias is None else square(*case.bias)
        self.mask = None
        if case.mask_type == 3:
            weights = square(*case.mask_shape)
            integer = case.mask_dtype in (torch.bool, torch.uint8)
            self.mask = (weights > 0).to(case.mask_dtype) if integer else weights.to(case.mask_dtype or case.dtype)
            self.mask[..., 0::3] = 0

    def rows(self) -> list[reference.Row]:
        case = self.case
        q, k, v, mask, bias = (
            None if t is None else t.double().numpy() for t in (self.q, self.k, self.v, self.mask, self.bias)
        )
        return reference.batch(
            q,
            k,
            v,
            case.offsets,
            scale=case.scale,
            alpha=case.alpha,
            mask_type=case.mask_type,
            mask=mask,
            bias=bias,
            context=case.context,
            target=case.target,
            group=case.group or 1,
            window=case.window,
            min_full=case.min_full,
            distance=case.distance,
        )

    def expected(self) -> list[np.ndarray]:
        """Output and gradients of q, k, v, and of the bias if there is one."""
        rows = self.rows()
        shape = None if self.bias is None else tuple(self.bias.shape)
        return [reference.outputs(rows), *reference.gradients(rows, self.grad.double().numpy(), shape)]

    def run(self, device: str) -> list[torch.Tensor]:
        """The same by hstu_jagged and its backward operator."""
        case = self.case

        def move(data: object, dtype: torch.dtype | None = None) -> torch.Tensor | None:
            return None if data is None else torch.as_tensor(data, dtype=dtype).to(device)

        settings = (
            move(self.mask),
            move(self.bias),
            case.mask_type,
            0,
            case.scale,
            move(case.offsets, case.index_dtype),
            move(case.context, case.index_dtype),
            move(case.target, case.index_dtype),
            case.group,
            case.alpha,
            case.window,
            case.min_full,
            False,
            case.distance,
        )
        inputs = (move(self.q), move(self.k), move(self.v))
        output = torch.ops.mxrec.hstu_jagged(*inputs, *settings)
        gradients = torch.ops.mxrec.hstu_jagged_backward(move(self.grad), *inputs, *settings)
        results = [output, *gradients]
        if self.bias is None:
            assert results.pop().shape == (0,)
        return [result.cpu() for result in results]


def assert_close(
    actual: torch.Tensor, expected: np.ndarray, dtype: torch.dtype, what: str = "", terms: int = 1
) -> None:
    """Within the tolerance of the dtype; sums of many terms have that of their largest."""
    assert actual.dtype == dtype and tuple(actual.shape) == expected.shape, (what, actual.dtype, actual.shape)
    error = np.abs(actual.double().numpy() - expected)
    limit = TOLERANCE[dtype] * (max(1.0, terms**0.5) + np.abs(expected))
    assert (error <= limit).all(), f"{what}: error {error.max()} at {np.unravel_index(error.argmax(), error.shape)}"


def check(case: Case, device: str) -> None:
    problem = Problem(case)
    names = ("output", "dq", "dk", "dv", "dbias")
    # The gradient of a shared bias is a sum over rows and heads.
    shared = len(case.lengths) * case.heads
    for name, actual, expected in zip(names, problem.run(device), problem.expected()):
        assert_close(actual, expected, case.dtype, f"{case} {name}", shared if name == "dbias" else 1)
