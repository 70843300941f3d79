"""Sampled softmax over all items, with negatives that groups of consecutive tokens share.

Shape suffixes: I tokens with a target, D model dim, R negatives of a group, G groups of C tokens (the last one padded).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F

from gr_model.common import draws
from gr_model.runtime.transfer import moved

Rows = Callable[[torch.Tensor], torch.Tensor]  # item ids -> [.., D]
HIDDEN = -1e4  # a logit that adds nothing to a sum of exponentials, and keeps gradients finite


@dataclass(frozen=True)
class Samples:
    """What each token must tell from what. `correction_GR` is added to the logits of the negatives."""

    targets_I: torch.Tensor
    negatives_GR: torch.Tensor
    correction_GR: torch.Tensor | None = None
    size: int = 0  # C; 0: as few as cover all tokens
    place_I: torch.Tensor | None = None  # of each token among G x C; None: one after the other

    def ready_on(self, device: torch.device) -> Samples:
        """What is not an id on `device`; ids stay where they are, until they are looked up."""
        correction_GR = None if self.correction_GR is None else moved(self.correction_GR, device)
        place_I = None if self.place_I is None else moved(self.place_I, device)
        return replace(self, correction_GR=correction_GR, place_I=place_I)

    @property
    def group(self) -> int:
        """C, tokens of a group."""
        return self.size or -(-len(self.targets_I) // max(1, len(self.negatives_GR)))

    def grouped(self, x: torch.Tensor, fill: float = 0.0) -> torch.Tensor:
        """[I, ..] -> [G, C, ..]; places without a token hold `fill`."""
        cells = len(self.negatives_GR) * self.group
        if self.place_I is None:
            padding = x.new_full((cells - len(x), *x.shape[1:]), fill)
            return torch.cat([x, padding]).unflatten(0, (-1, self.group))
        whole = x.new_full((cells, *x.shape[1:]), fill)
        return whole.index_copy(0, self.place_I, x).unflatten(0, (-1, self.group))

    def flat(self, x: torch.Tensor) -> torch.Tensor:
        """The inverse, for [G, C]."""
        return x.flatten()[: len(self.targets_I)] if self.place_I is None else x.flatten().index_select(0, self.place_I)


@dataclass(frozen=True)
class ByUser:
    """Whose tokens a batch holds: `counts` of each of `users`, in order. Then no group holds tokens of two users."""

    seed: int
    step: int
    users: tuple[int, ...]
    counts: tuple[int, ...]


def draw(
    targets_I: torch.Tensor,
    items: int,
    uniform: int,
    in_batch: int,
    group: int,
    by_user: ByUser | None = None,
    pool_P: torch.Tensor | None = None,
) -> Samples:
    """Negatives for each group of tokens: `uniform` from all items and `in_batch` from the targets of the batch.

    `pool_P` are the targets of the whole batch, where it is spread over processes; None: `targets_I`.

    Items of the batch come as often as they are popular. Their logits lose the logarithm of how much likelier than a
    uniform draw that makes them (logQ correction, Bengio and Senecal 2008), so that both kinds estimate one softmax.
    With `by_user` the numbers follow from the user and the place alone: the same ones on every device, and however the
    users are spread over processes, if `pool_P` is.
    """
    device = targets_I.device
    pool_P = targets_I if pool_P is None else pool_P
    if by_user:
        groups_of = [-(-count // group) for count in by_user.counts]
        keys_G = draws.rows(by_user.seed, by_user.step, by_user.users, groups_of)
        negatives_GR = draws.integers(keys_G, draws.NEGATIVES, uniform, items).to(device)
        first_cell = group * (np.cumsum(groups_of) - groups_of)
        place = np.concatenate([first + np.arange(n) for first, n in zip(first_cell, by_user.counts)])
        samples = Samples(targets_I, negatives_GR, None, group, torch.from_numpy(place).to(device))
        drawn = draws.integers(keys_G, draws.IN_BATCH, in_batch, len(pool_P)).to(device)
    else:
        groups = -(-len(targets_I) // group)
        negatives_GR = torch.randint(items, (groups, uniform), device=device)
        samples = Samples(targets_I, negatives_GR)
        drawn = torch.randint(len(pool_P), (groups, in_batch), device=device)
    if not in_batch:
        return samples
    popular_GR = pool_P.index_select(0, drawn.flatten()).view(drawn.shape)
    likelier_GR = _counts(pool_P, popular_GR, items) * (items / len(pool_P))
    correction_GR = torch.cat([torch.zeros_like(negatives_GR, dtype=torch.float32), -likelier_GR.log()], dim=1)
    negatives_GR = torch.cat([negatives_GR, popular_GR], dim=1)
    return replace(samples, negatives_GR=negatives_GR, correction_GR=correction_GR)


def _counts(pool_P: torch.Tensor, popular_GR: torch.Tensor, items: int) -> torch.Tensor:
    """[G, R] float32: how often each of these items of the pool is in the pool."""
    popular = popular_GR.flatten()
    if pool_P.device.type == "cpu":  # the host must not go through all items; a device would wait for the distinct ones
        distinct, counts = torch.unique(pool_P, return_counts=True)
        found = counts.float().index_select(0, torch.searchsorted(distinct, popular))
    else:
        ones_P = torch.ones_like(pool_P, dtype=torch.float32)
        found = torch.zeros(items, device=pool_P.device).index_add(0, pool_P, ones_P).index_select(0, popular)
    return found.view(popular_GR.shape)


def sampled_softmax(query_ID: torch.Tensor, rows: Rows, samples: Samples, temperature: float) -> torch.Tensor:
    """Mean over I of -log(exp(p / T) / (exp(p / T) + sum over the negatives of exp(n / T))).

    p and n are dot products of the query with the rows of target and negatives. A negative that is the token's target
    by accident does not count. One batched product of [C, D] by [D, R] a group.
    """
    groups, width = samples.negatives_GR.shape
    target_ID = rows(samples.targets_I)
    negative_GRD = rows(samples.negatives_GR.flatten()).view(groups, width, -1)
    positive_I = _wide((query_ID * target_ID).sum(1)) / temperature
    query_GCD = samples.grouped(query_ID)
    logits_GCR = _wide(torch.bmm(query_GCD, negative_GRD.transpose(1, 2))) / temperature
    if samples.correction_GR is not None:
        logits_GCR = logits_GCR + samples.correction_GR[:, None]
    target_GC = samples.grouped(samples.targets_I, fill=-1)
    accident_GCR = target_GC[:, :, None] == samples.negatives_GR[:, None]
    against_GC = logits_GCR.masked_fill(accident_GCR, HIDDEN).logsumexp(2)
    return F.softplus(samples.flat(against_GC) - positive_I).mean()


def fused_softmax(
    x_ID: torch.Tensor, rows_UD: torch.Tensor, samples: Samples, temperature: float, eps: float
) -> torch.Tensor:
    """`sampled_softmax` of x and rows that the operator of gr_ops scales to length 1; on a CPU.

    Logits stay in a core's cache, and rows are read where the table has them.
    """
    at = samples.targets_I, samples.negatives_GR, samples.correction_GR, samples.place_I
    loss: torch.Tensor = torch.ops.mxrec.sampled_softmax(x_ID, rows_UD, *at, max(1, samples.group), temperature, eps)
    return loss


def _wide(x: torch.Tensor) -> torch.Tensor:
    """At least float32: an exponential of bfloat16 logits is worth little."""
    return x if x.dtype == torch.float64 else x.float()
