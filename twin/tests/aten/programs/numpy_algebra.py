"""Factors, solutions and products of matrices, and the loss of CTC, beside float64 NumPy and SciPy, with gradients."""

# ruff: noqa: B023 (`check` calls what it is given before the loop goes on)
from __future__ import annotations

import itertools

import numpy as np
import scipy.linalg
import scipy.spatial.distance
import scipy.special
import torch
import torch.nn.functional as F
from numerical import Array, check, difference, random, rows, tell


def npu(values: Array) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32, device="npu")


def single(values: Array) -> Array:
    """As float32 has them."""
    return values.astype(np.float32).astype(np.float64)


def factors() -> None:
    """Each column of Q and row of R with the sign that makes R's diagonal positive, which alone is unique."""

    def of_torch(t: torch.Tensor, mode: str) -> torch.Tensor:
        q, r = torch.linalg.qr(t, mode)
        sign = torch.diagonal(r).sign()
        return torch.cat(((q[:, : len(sign)] * sign).flatten(), (r[: len(sign)] * sign[:, None]).flatten()))

    def of_numpy(a: Array) -> Array:
        q, r = np.linalg.qr(a)
        sign = np.sign(np.diagonal(r))
        return np.concatenate(((q * sign).ravel(), (r * sign[:, None]).ravel()))

    for shape in ((4, 4), (5, 3)):
        x = random.normal(size=shape)
        check(f"qr {shape}", lambda t: of_torch(t, "reduced"), of_numpy, x)
    tall = random.normal(size=(5, 3))
    q, r = torch.linalg.qr(npu(tall), "complete")
    rows["qr complete"] = max(difference(q @ r, single(tall)), difference(q.mT @ q, np.eye(5)))
    _, upper = torch.linalg.qr(npu(tall), "r")
    rows["qr of r"] = difference(upper.abs(), np.abs(np.linalg.qr(single(tall))[1]))


def singular_values() -> None:
    for shape, full in itertools.product(((4, 3), (3, 4), (2, 4, 4)), (False, True)):
        x = random.normal(size=shape)
        left, values, right = torch.linalg.svd(npu(x), full_matrices=full)
        count = values.shape[-1]
        product = left[..., :count] @ torch.diag_embed(values) @ right[..., :count, :]
        rows[f"svd {shape} {full}"] = max(
            difference(product, single(x)),
            difference(left.mT @ left, np.broadcast_to(np.eye(left.shape[-1]), left.mT.shape[:-1] + left.shape[-1:])),
            difference(values, np.linalg.svd(single(x), compute_uv=False)),
            difference(torch.linalg.svdvals(npu(x)), np.linalg.svd(single(x), compute_uv=False)),
        )
    check("singular values", torch.linalg.svdvals, lambda a: np.linalg.svd(a, compute_uv=False), x)


def solutions() -> None:
    x = random.normal(size=(2, 3, 3)) + 3 * np.eye(3)
    check("inverse", torch.inverse, np.linalg.inv, x)
    check("slogdet", lambda t: torch.linalg.slogdet(t)[1], lambda a: np.linalg.slogdet(a)[1], x)
    sign = torch.linalg.slogdet(npu(-x))[0]
    rows["slogdet sign"] = difference(sign, np.linalg.slogdet(-single(x))[0])
    matrix, right = random.normal(size=(3, 3)) + 3 * np.eye(3), random.normal(size=(3, 2))
    for upper, transpose, unit in itertools.product((False, True), repeat=3):
        found, _ = torch.triangular_solve(npu(right), npu(matrix), upper, transpose, unit)
        wanted = scipy.linalg.solve_triangular(
            single(matrix), single(right), trans=int(transpose), lower=not upper, unit_diagonal=unit
        )
        rows[f"triangular_solve {upper} {transpose} {unit}"] = difference(found, wanted)


def products() -> None:
    left, right = random.normal(size=(3, 2, 4)), random.normal(size=(3, 4, 5))
    check(
        "addbmm",
        lambda t: torch.addbmm(t, npu(left), npu(right), beta=0.5, alpha=2.0),
        lambda a: 0.5 * a + 2.0 * np.einsum("bij,bjk->ik", single(left), single(right)),
        random.normal(size=(2, 5)),
    )
    first, second = random.normal(size=3), random.normal(size=4)
    check(
        "addr_",
        lambda t: t.clone().addr_(npu(first), npu(second), beta=0.5, alpha=2.0),
        lambda a: 0.5 * a + 2.0 * np.outer(single(first), single(second)),
        random.normal(size=(3, 4)),
    )
    other = random.normal(size=(4, 3))
    check(
        "cross",
        lambda t: torch.linalg.cross(t, npu(other)),
        lambda a: np.cross(a, single(other)),
        random.normal(size=(4, 3)),
    )
    names = {1.0: "cityblock", 2.0: "euclidean", float("inf"): "chebyshev"}
    for p, name in names.items():
        points = random.normal(size=(5, 3))
        found = torch.nn.functional.pdist(npu(points), p)
        rows[f"pdist {p}"] = difference(found, scipy.spatial.distance.pdist(single(points), name))


def alignments() -> None:
    """The loss of CTC by its definition: the logarithm of the sum over all alignments, one step after the other."""
    targets, lengths, target_lengths = [[1, 2, 2], [3, 1, 0]], [6, 5], [3, 2]

    def loss(scores: Array) -> Array:
        logs = scores - scipy.special.logsumexp(scores, axis=-1, keepdims=True)
        found = []
        for n, (length, count) in enumerate(zip(lengths, target_lengths)):
            extended = [0]
            for label in targets[n][:count]:
                extended += [label, 0]
            total = np.full(len(extended), -np.inf)
            total[:2] = logs[0, n, extended[:2]]
            for step in range(1, length):
                before = total.copy()
                for s, label in enumerate(extended):
                    ways = [before[s], *([before[s - 1]] if s else [])]
                    if s > 1 and label != 0 and label != extended[s - 2]:
                        ways.append(before[s - 2])
                    total[s] = scipy.special.logsumexp(ways) + logs[step, n, label]
            found.append(-scipy.special.logsumexp(total[-2:]))
        return np.array(found)

    x = random.normal(size=(6, 2, 4))
    check(
        "ctc_loss",
        lambda t: F.ctc_loss(
            t.log_softmax(-1),
            torch.tensor(targets, device="npu"),
            torch.tensor(lengths),
            torch.tensor(target_lengths),
            reduction="none",
        ),
        loss,
        x,
    )


def main() -> None:
    for part in (factors, singular_values, solutions, products, alignments):
        part()
    tell()


if __name__ == "__main__":
    main()
