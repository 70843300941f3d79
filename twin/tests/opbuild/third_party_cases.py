"""The cases of all operators in third_party."""

from __future__ import annotations

from elementwise_cases import ELEMENTWISE
from move_cases import MOVES
from product_cases import PRODUCT_CASES
from row_cases import ROW_CASES
from third_party_case import Case

CASES = (*ELEMENTWISE, *ROW_CASES, *MOVES, *PRODUCT_CASES)


def name_of(case: Case) -> str:
    return f"{case.type}-{CASES.index(case)}"
