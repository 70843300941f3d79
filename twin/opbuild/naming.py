"""Names derived from an operator type and its parameters."""

from __future__ import annotations


def snake_case(op_type: str) -> str:
    """JaggedToDense -> jagged_to_dense, HSTUForward -> hstu_forward, TopK2D -> top_k2_d."""
    result = ""
    for i, letter in enumerate(op_type):
        before = op_type[i - 1] if i else ""
        after = op_type[i + 1 : i + 2]
        starts_word = before.islower() or before.isdigit() or (before.isupper() and after.islower())
        if letter.isupper() and i and before != "_" and starts_word:
            result += "_"
        result += letter.lower()
    return result


def lower_camel(name: str) -> str:
    """grad_out -> gradOut."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)
