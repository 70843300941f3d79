"""Sampled softmax over all items, with negatives that groups of consecutive tokens share.

Shape suffixes: I tokens with a target, D model dim, R negatives of a group, G groups of C tokens (the last one padded).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

Rows = Callable[[torch.Tensor], torch.Tensor]  # item ids -> [.., D]
HIDDEN = -1e4  # a logit that adds nothing to a sum of exponentials, and keeps gradients finite


@dataclass(frozen=True)
class Samples:
    """What each token must tell from what. `correction_GR` is added to the logits of the negatives."""

    targets_I: torch.Tensor
    negatives_GR: torch.Tensor
    correction_GR: torch.Tensor | None = None

    @property
    def group(self) -> int:
        """C: as few tokens in a group as cover all of them."""
        return -(-len(self.targets_I) // max(1, len(self.negatives_GR)))


def draw(targets_I: torch.Tensor, items: int, uniform: int, in_batch: int, group: int, host: bool) -> Samples:
    """Negatives for each group of tokens: `uniform` from all items and `in_batch` from the targets of the batch.

    Items of the batch come as often as they are popular. Their logits lose the logarithm of how much likelier than a
    uniform draw that makes them (logQ correction, Bengio and Senecal 2008), so that both kinds estimate one softmax.
    With `host` the random numbers are drawn on the CPU: the same ones for every device.
    """
    device = targets_I.device
    where = torch.device("cpu") if host else device
    groups = -(-len(targets_I) // group)
    negatives_GR = torch.randint(items, (groups, uniform), device=where).to(device)
    if not in_batch:
        return Samples(targets_I, negatives_GR)
    drawn = torch.randint(len(targets_I), (groups, in_batch), device=where).to(device)
    popular_GR = targets_I.index_select(0, drawn.flatten()).view(drawn.shape)
    count_V = torch.zeros(items, device=device).index_add(0, targets_I, torch.ones_like(targets_I, dtype=torch.float32))
    likelier_GR = count_V.index_select(0, popular_GR.flatten()).view(drawn.shape) * (items / len(targets_I))
    correction_GR = torch.cat([torch.zeros_like(negatives_GR, dtype=torch.float32), -likelier_GR.log()], dim=1)
    return Samples(targets_I, torch.cat([negatives_GR, popular_GR], dim=1), correction_GR)


def sampled_softmax(query_ID: torch.Tensor, rows: Rows, samples: Samples, temperature: float) -> torch.Tensor:
    """Mean over I of -log(exp(p / T) / (exp(p / T) + sum over the negatives of exp(n / T))).

    p and n are dot products of the query with the rows of target and negatives. A negative that is the token's target
    by accident does not count. One batched product of [C, D] by [D, R] a group.
    """
    groups, width = samples.negatives_GR.shape
    padding = groups * samples.group - len(query_ID)
    target_ID = rows(samples.targets_I)
    negative_GRD = rows(samples.negatives_GR.flatten()).view(groups, width, -1)
    positive_I = _wide((query_ID * target_ID).sum(1)) / temperature
    query_GCD = F.pad(query_ID, (0, 0, 0, padding)).view(groups, samples.group, -1)
    logits_GCR = _wide(torch.bmm(query_GCD, negative_GRD.transpose(1, 2))) / temperature
    if samples.correction_GR is not None:
        logits_GCR = logits_GCR + samples.correction_GR[:, None]
    target_GC = F.pad(samples.targets_I, (0, padding), value=-1).view(groups, samples.group)
    accident_GCR = target_GC[:, :, None] == samples.negatives_GR[:, None]
    against_I = logits_GCR.masked_fill(accident_GCR, HIDDEN).logsumexp(2).flatten()[: len(query_ID)]
    return F.softplus(against_I - positive_I).mean()


def _wide(x: torch.Tensor) -> torch.Tensor:
    """At least float32: an exponential of bfloat16 logits is worth little."""
    return x if x.dtype == torch.float64 else x.float()
