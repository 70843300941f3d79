"""By what victims are chosen, in PyTorch's operators; csrc/ids/eviction.cpp for tensors of any device."""

import torch

from hybrid_torchrec.backends.cuda.layout import constants
from hybrid_torchrec.kinds import EVICTIONS, listed

(FREE_STEP,) = constants("FREE_STEP")
SHOWS, LAST_STEP, SCORE, EXPIRED = (EVICTIONS[name].number for name in ("LFU", "LRU", "Score", "TTL"))


def keys(
    kind: int,
    shows: torch.Tensor,
    clicks: torch.Tensor,
    last: torch.Tensor,
    show_weight: float,
    click_weight: float,
    decay: float,
    step: int,
) -> torch.Tensor:
    """(R,) float64: the lowest go first."""
    if kind == SHOWS:
        return shows.double()
    if kind in (LAST_STEP, EXPIRED):  # by age alone
        return torch.zeros_like(last, dtype=torch.float64)
    score = show_weight * shows.double() + click_weight * clicks.double()
    return score * torch.pow(decay, (step - last).clamp(min=0).double())


def check(kind: int) -> None:
    """Raises ValueError for a kind that is none of these."""
    if kind not in (SHOWS, LAST_STEP, SCORE, EXPIRED):
        raise ValueError(f"unknown eviction policy {kind}; valid: {listed(EVICTIONS)}")


def candidates(kind: int, last: torch.Tensor, step: int, time_to_live: int, keep: torch.Tensor) -> torch.Tensor:
    """Slots (R,) with rows, by the last steps (C,) of all slots; none of keep (K,)."""
    used = last != FREE_STEP
    used[keep[(keep > 0) & (keep < len(last))]] = False
    if kind == EXPIRED:
        used &= step - last > time_to_live
    return used.nonzero()[:, 0]
