"""The operators that the suites run, with cases small enough to repeat often and sharp enough to show a fault.

Mostly integers, so that results are exact whatever the order of a sum. All cases of an operator have the types of one
dtype column, whose kernel is the one that is compiled.
"""

from __future__ import annotations

import embedding_cases
import hstu_cases
import hstu_relative_cases
import jagged_cases
import layer_cases
import lookup_cases

_BY_OPERATOR = {
    **jagged_cases.CASES,
    **lookup_cases.CASES,
    **embedding_cases.CASES,
    **hstu_cases.CASES,
    **hstu_relative_cases.CASES,
    **layer_cases.CASES,
}
ALL = tuple(_BY_OPERATOR)
CASES = {operator.snake: cases for operator, cases in _BY_OPERATOR.items()}
