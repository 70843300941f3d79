"""What a launch over several tables needs: where the elements of each begin, and its addresses."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hybrid_torchrec.backends.cuda.sorted_slots import key_type


class TableOffsets:
    """Offsets of each table's elements, on the device; kept while lengths stay the same."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._lengths: tuple[int, ...] = ()
        self.starts = torch.zeros(1, dtype=torch.int64, device=device)  # (T + 1,)
        self.longest = 0
        self._keys: tuple[int, torch.Tensor] | None = None

    def update(self, lengths: Sequence[int]) -> TableOffsets:
        given = tuple(lengths)
        if given != self._lengths:
            self.starts = torch.tensor([0, *given], dtype=torch.int64).cumsum(0).to(self._device)
            self._lengths, self.longest, self._keys = given, max(given), None
        return self

    def keys(self, bits: int) -> torch.Tensor:
        """(L,) of each element, the number of its table << bits; int32 where slots fit beside it, else int64."""
        if self._keys is None or self._keys[0] != bits:
            tables = len(self._lengths)
            table_of = torch.arange(tables, device=self._device).repeat_interleave(
                self.starts.diff(), output_size=sum(self._lengths)
            )
            self._keys = bits, (table_of << bits).to(key_type(bits, tables))
        return self._keys[1]


def longest_of(per_table: TableOffsets | None, count: int) -> int:
    """Elements of the table that has the most; one table has all."""
    return count if per_table is None else per_table.longest


def starts_of(per_table: TableOffsets | None, elements: torch.Tensor) -> torch.Tensor:
    """What a kernel takes for `starts`; of one table it reads none, and any tensor will do."""
    return elements if per_table is None else per_table.starts


class StackedDescriptors:
    """The rows (1, PARTS) of several tables in one tensor (T, PARTS), made anew when one of them is another tensor.

    It keeps the tensors of which it was made, so that none of another table can come to lie in their place.
    """

    def __init__(self) -> None:
        self._made_of: list[torch.Tensor] = []
        self._joined = torch.empty(0)

    def stack(self, parts: list[torch.Tensor]) -> torch.Tensor:
        if len(parts) != len(self._made_of) or any(a is not b for a, b in zip(parts, self._made_of)):
            self._joined, self._made_of = torch.cat(parts), parts
        return self._joined
