"""The ids of a batch, of all features that share a table."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def joined_ids(features: Sequence[Tensor], table: str) -> Tensor:
    """Values of each feature, (any,) of an integer type -> all of them (L,) int64.

    Raises TypeError for other types, of which ids would lose what int64 does not hold; values of no id may have any.
    """
    for values in features:
        if values.dtype not in INTEGERS and values.numel():
            raise TypeError(
                f"table {table}: ids must be integers (torch.int64), got {values.dtype}; convert them where the batch "
                "is made, as KeyedJaggedTensor(values=ids.long(), ...)"
            )
    return torch.cat([values.long() for values in features])
