"""Operators of third parties that multiply matrices."""

from __future__ import annotations

import numpy as np
from third_party_case import Case
from third_party_values import leaky, softmax


def products(r: np.random.Generator, n: int) -> list[np.ndarray]:
    return [r.uniform(-1, 1, (64, n)).astype(np.float16), r.uniform(-1, 1, (n, 96)).astype(np.float16)]


PRODUCT_CASES = (
    Case("ProductSoftmax", "product_softmax", products, lambda a, b: softmax(a @ b), sizes=(1, 16, 40), tolerance=1e-5),
    Case(
        "AttentionRows",
        "attention_rows",
        lambda r, n: [*products(r, n), r.uniform(-1, 1, (96, 40)).astype(np.float16)],
        lambda q, k, v: softmax(q @ k) @ v,
        sizes=(1, 16, 40),
        tolerance=1e-3,
    ),
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
