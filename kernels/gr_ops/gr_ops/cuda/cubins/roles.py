"""Which facts of its arguments matter to a kernel.

Of a parameter its role says so: a constant is compiled in; of other numbers Triton looks at whether they are 1 or
multiples of 16, of addresses whether they are multiples of 16, but where the kernel forbids it. Needs neither PyTorch
nor Triton.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CONSTANT, FREE, ALIGNMENT_FREE, SPECIALIZED = "constant", "free", "alignment free", "specialized"
Fact = list[Any]


def needed(facts: Sequence[Fact], roles: Sequence[str]) -> list[Fact]:
    """One and the same for all launches that a compiled kernel serves; Triton compiles the same for it as for them."""
    return [fact if role == CONSTANT else _needed(fact, role) for fact, role in zip(facts, roles, strict=True)]


def _needed(fact: Fact, role: str) -> Fact:
    kind, *about = fact
    if kind == "tensor":
        return ["tensor", about[0], about[1] or role != SPECIALIZED]
    if kind == "int":
        return ["int", _stand_in(about[0], role)]
    return {"float": ["float", 0.5], "bool": ["bool", False]}.get(kind, fact)


def _stand_in(value: int, role: str) -> int:
    narrow = -(2**31) <= value < 2**31
    if value == 1 and role != FREE:
        return 1
    return (16 if value % 16 == 0 and role == SPECIALIZED else 3) + (0 if narrow else 2**40)
