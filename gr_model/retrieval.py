"""Retrieval: predict the next item. Sampled softmax over l2-normalised dot products; evaluation over all items.

Protocol: leave-last-out. Each user's last interaction is the test target; the model trains on what is before it. All
items are candidates except those that the user has seen (`retrieval.mask`: in the input, or in the whole history);
ties count against the model (metrics.target_ranks). There is no validation set.
Shape suffixes: as in preprocess.py; V items of the catalogue, R samples (the target first).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from gr_model import metrics
from gr_model.config import Config
from gr_model.data.interactions import History, Interactions
from gr_model.hstu import HSTU
from gr_model.preprocess import Preprocess, Tokens, tokens


@dataclass(frozen=True)
class RetrievalBatch:
    tokens: Tokens
    samples_IR: torch.Tensor  # column 0 is the next item, the others are drawn at random


class RetrievalModel(nn.Module):
    def __init__(self, config: Config, items: int, actions: int, feature_sizes: Sequence[int]) -> None:
        super().__init__()
        self.temperature, self.norm_eps = config.retrieval.temperature, config.model.norm_eps
        self.preprocess = Preprocess(config.model, items, actions, feature_sizes)
        self.hstu = HSTU(config.model)

    def forward(self, batch: RetrievalBatch) -> torch.Tensor:
        """The mean loss over all interactions."""
        query_ID = self.queries(batch.tokens, batch.tokens.last_at_I)
        logits_IR = sampled_scores(query_ID, self.items(), batch.samples_IR) / self.temperature
        # A negative that is the target by accident would pull both ways.
        accident_IR = batch.samples_IR == batch.samples_IR[:, :1]
        accident_IR[:, 0] = False
        logits_IR = logits_IR.masked_fill(accident_IR, float("-inf"))
        return (logits_IR.logsumexp(1) - logits_IR[:, 0]).mean()

    def queries(self, batch: Tokens, at: torch.Tensor) -> torch.Tensor:
        x_LD = self.hstu(self.preprocess(batch), batch.sequences)
        return F.normalize(x_LD.index_select(0, at), dim=1, eps=self.norm_eps)

    def items(self) -> torch.Tensor:
        return F.normalize(self.preprocess.item.weight, dim=1, eps=self.norm_eps)


def sampled_scores(query_ID: torch.Tensor, items_VD: torch.Tensor, samples_IR: torch.Tensor) -> torch.Tensor:
    """Dot products of each query with its samples.

    For a small catalogue: all products by one matrix product, then a choice. On ML-100K (I 11.6k, R 129, D 50, V 1682)
    that is 78 MB and 23 ms on two cores, where gathering the I x R item rows alone is 300 MB and 54 ms.
    """
    if len(items_VD) <= 32 * samples_IR.shape[1]:
        return (query_ID @ items_VD.T).gather(1, samples_IR)
    rows_IRD = items_VD.index_select(0, samples_IR.flatten()).view(*samples_IR.shape, -1)
    return (rows_IRD @ query_ID[:, :, None]).squeeze(2)


class Retrieval:
    """The task: model, batches, evaluation."""

    def __init__(self, config: Config, data: Interactions) -> None:
        self.config, self.data = config, data
        _, sizes = data.choose_features(config.model.contextual)
        self.columns = [list(data.feature_sizes).index(name) for name in config.model.contextual]
        # Shortest history that has an input and a target for training besides the test target.
        self.users = [user for user in data.users if len(user) >= 3]
        self.model = RetrievalModel(config, data.items, len(data.action_values), sizes)

    def batch(self, users: Sequence[int], device: torch.device) -> RetrievalBatch:
        histories = [self.users[user][:-1] for user in users]
        inputs = self._tokens([history[:-1] for history in histories], device)
        longest = self.config.model.max_items
        next_I = np.concatenate([histories[b].items[1:][-longest:] for b in inputs.order])
        shape = (len(next_I), self.config.retrieval.negatives)
        where = torch.device("cpu") if self.config.train.deterministic else device
        negatives = torch.randint(self.data.items, shape, device=where).to(device)
        return RetrievalBatch(inputs, torch.cat([torch.from_numpy(next_I)[:, None].to(device), negatives], dim=1))

    def loss(self, batch: RetrievalBatch) -> torch.Tensor:
        return self.model(batch)

    @torch.no_grad()
    def evaluate(self, device: torch.device) -> dict[str, float]:
        self.model.eval()
        items_VD = self.model.items()
        ranks = []
        for start in range(0, len(self.users), self.config.train.batch):
            users = self.users[start : start + self.config.train.batch]
            batch = self._tokens([user[:-1] for user in users], device)
            users = [users[b] for b in batch.order]
            last_B = batch.sequences.offsets_B1[1:] - 1
            scores_BV = self.model.queries(batch, last_B) @ items_VD.T
            target_B = torch.tensor([int(user.items[-1]) for user in users], device=device)
            ranks.append(metrics.target_ranks(scores_BV, target_B, self.seen(users).to(device)).cpu().numpy())
        return metrics.ranking_metrics(np.concatenate(ranks))

    def seen(self, users: Sequence[History]) -> torch.Tensor:
        """[B, V]: the items that may not be recommended again."""
        whole = self.config.retrieval.mask == "history"
        seen_BV = torch.zeros(len(users), self.data.items, dtype=torch.bool)
        for row, user in enumerate(users):
            history = user.items[:-1]
            seen_BV[row, history if whole else history[-self.config.model.max_items :]] = True
        return seen_BV

    def protocol(self) -> str:
        hidden = "input" if self.config.retrieval.mask == "input" else "whole history"
        return (
            f"leave-last-out over {len(self.users)} users, all {self.data.items} items are candidates but those of "
            f"the {hidden}; ties count against the model; no validation set; stable order by time, then file"
        )

    def _tokens(self, histories: Sequence[History], device: torch.device) -> Tokens:
        return tokens(histories, self.columns, self.config.model, device)
