"""How the tokens of a batch are laid out: [contextual | history | targets] for each sequence, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from gr_model.runtime.transfer import to_device


@dataclass(frozen=True)
class Sequences:
    """The batch is ordered by length, longest first.

    `targets` counts the candidates at the end of each sequence: each of them sees the history and itself, nothing sees
    it. With `contexts` the first so many tokens of each sequence see all of its history; then only the targets may be
    trained on, because later tokens see the history through those.
    """

    offsets_B1: torch.Tensor
    times_L: torch.Tensor  # int64, seconds; when the token became known
    lengths: tuple[int, ...]  # on the host, so that no step waits for the device
    targets: tuple[int, ...] | None = None
    contexts: int = 0

    def __post_init__(self) -> None:
        if any(a < b for a, b in zip(self.lengths, self.lengths[1:], strict=False)):
            raise ValueError("sequences must be ordered by length, longest first")
        if self.targets is not None and len(self.targets) != len(self.lengths):
            raise ValueError(f"{len(self.targets)} counts of targets for {len(self.lengths)} sequences")
        for length, targets in zip(self.lengths, self.targets or ()):
            if not 0 <= targets <= length - self.contexts:
                raise ValueError(f"{targets} targets and {self.contexts} contextual tokens in a sequence of {length}")

    @property
    def total(self) -> int:
        return sum(self.lengths)

    @property
    def longest(self) -> int:
        return self.lengths[0] if self.lengths else 0

    @property
    def causal(self) -> bool:
        """Whether every token sees exactly those before it."""
        return self.targets is None and self.contexts == 0

    def history_B(self) -> torch.Tensor:
        """[B]: how many tokens stand before the targets."""
        return self.offsets_B1.diff() - self.targets_B

    @cached_property
    def targets_B(self) -> torch.Tensor:
        """[B]: how many targets each sequence has. Copied to the device once a batch, for all layers."""
        return to_device(np.array(self.targets or (0,) * len(self.lengths), np.int64), self.times_L.device)

    @cached_property
    def contexts_B(self) -> torch.Tensor:
        """[B]: the same number for each sequence."""
        return torch.full((len(self.lengths),), self.contexts, device=self.times_L.device)
