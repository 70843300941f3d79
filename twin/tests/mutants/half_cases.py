"""Operators in fp16, whose sums stand where those of fp32 do not: apart from the results, or half and half in two.

The launcher compares fp16 bit by bit, so all numbers are chosen such that fp32 holds them exactly: rows of +1 and -1
have no mean and a deviation of 1; scores are so large that their sigmoid is 1.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from cases import Case, NoOutput, Output
from hstu_cases import ATTENTION, GRADIENTS
from hstu_problem import Problem
from hstu_reference import Options
from layer_cases import GATE_GRADIENTS
from layer_problem import Gate
from workshop import Operator


def in_halves(operator: Operator) -> Operator:
    return dataclasses.replace(operator, macros=dict.fromkeys(operator.macros, "half"))


HALF_ATTENTION, HALF_GRADIENTS, HALF_GATE_GRADIENTS = map(in_halves, (ATTENTION, GRADIENTS, GATE_GRADIENTS))


def rounded(array: np.ndarray) -> Output:
    return Output((array + 0.0).astype(np.float16))  # no zero is negative


def signs(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """As many of both in each row, or one more of 1."""
    row = np.where(np.arange(shape[-1]) % 2, -1, 1)
    return rng.permuted(np.broadcast_to(row, shape), axis=-1).astype(np.float16)


def attention_problem(lengths: list[int], heads: int) -> Problem:
    """Scores from 57 to 71."""
    p = Problem(lengths=lengths, heads=heads, dim=8, dtype="float16", options=Options(scale=1 / 64))
    rng = np.random.default_rng(1)
    p.arrays = {name: signs(rng, *array.shape) for name, array in p.arrays.items()}
    for name in ("q", "k"):
        p.arrays[name][..., 0] = 8
    return p


def attention_case(name: str, lengths: list[int], heads: int) -> Case:
    p = attention_problem(lengths, heads)
    no_pages_nor_faults = [None] * 5
    arguments: list[Any] = [*p.inputs(), *no_pages_nor_faults, *p.attributes()]
    return Case(name, [*arguments, rounded(p.expected_output()), NoOutput()])


def gradients_case(name: str, lengths: list[int], heads: int) -> Case:
    p = attention_problem(lengths, heads)
    results = [rounded(array) for array in p.expected_gradients().values()]
    return Case(name, [p.arrays["grad"], *p.inputs(), *p.attributes(), *results, NoOutput()])


def gate_gradients_cases() -> list[Case]:
    """Rows whose halves are whole blocks of 32 bytes; on two cores blocks follow each other."""
    p = Gate(width=64, dim=21, tokens=830, dtype="float16", dropped=False, eps=0.0)
    rng = np.random.default_rng(1)
    p.arrays = {name: signs(rng, *array.shape) for name, array in p.arrays.items()}
    inputs = p.inputs("grad", "attended", "u", "weight")
    results = [rounded(array) for array in p.expected_gradients().values()]
    return [Case("fp16", [*inputs, p.keep, p.scale, p.eps, *results])]


# Several blocks of keys and of queries for each core of two; tiles as large as a slot, whose last strip is a short one.
CASES = {
    HALF_ATTENTION: [attention_case("blocks", [140, 0, 33], 2), attention_case("long", [530], 1)],
    HALF_GRADIENTS: [gradients_case("blocks", [140, 0, 33], 2)],
    HALF_GATE_GRADIENTS: gate_gradients_cases(),
}
