"""Retrieval: predict the next item. Sampled softmax over l2-normalised dot products; evaluation over all items.

Protocol: leave-last-out. Each user's last interaction is the test target; the model trains on what is before it. All
items are candidates except those that the user has seen (`retrieval.mask`: in the input, or in the whole history);
ties count against the model (metrics.target_ranks). With `retrieval.validation=k` the test target is left aside, the k
interactions before it are the targets and the model trains on what is before those: settings are chosen on them, not
on the test.
Shape suffixes: as in preprocess.py; V items of the catalogue, R samples (the target first).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from gr_model import losses, metrics
from gr_model.backbone import backbone
from gr_model.config import Config
from gr_model.data.interactions import History, Interactions
from gr_model.losses import Samples
from gr_model.preprocess import Preprocess, Tokens, rows, tokens


@dataclass(frozen=True)
class RetrievalBatch:
    tokens: Tokens
    samples: Samples


class RetrievalModel(nn.Module):
    def __init__(self, config: Config, items: int, actions: int, feature_sizes: Sequence[int]) -> None:
        super().__init__()
        self.temperature, self.norm_eps = config.retrieval.temperature, config.model.norm_eps
        self.preprocess = Preprocess(config.model, items, actions, feature_sizes)
        self.backbone = backbone(config.model)

    def forward(self, batch: RetrievalBatch) -> torch.Tensor:
        """The mean loss over all interactions."""
        query_ID = self.queries(batch.tokens, batch.tokens.last_at_I)
        return losses.sampled_softmax(query_ID, self.item_rows, batch.samples, self.temperature)

    def queries(self, batch: Tokens, at: torch.Tensor) -> torch.Tensor:
        x_LD = self.backbone(self.preprocess(batch), batch.sequences)
        return self._unit(x_LD.index_select(0, at))

    def items(self) -> torch.Tensor:
        """[V, D] of length 1."""
        return self._unit(self.preprocess.item.weight)

    def item_rows(self, ids: torch.Tensor) -> torch.Tensor:
        """items()[ids]; of a large table only those rows are normalised."""
        if len(self.preprocess.item.weight) <= len(ids):
            return self.items().index_select(0, ids)
        return self._unit(rows(self.preprocess.item, ids))

    def _unit(self, x: torch.Tensor) -> torch.Tensor:
        return F.normalize(x, dim=1, eps=self.norm_eps)


class Retrieval:
    """The task: model, batches, evaluation."""

    def __init__(self, config: Config, data: Interactions) -> None:
        self.config, self.data = config, data
        _, sizes = data.choose_features(config.model.contextual)
        self.columns = [list(data.feature_sizes).index(name) for name in config.model.contextual]
        self.held_out = config.retrieval.validation or 1
        users = [user[:-1] for user in data.users] if config.retrieval.validation else data.users
        # Shortest history that has an input and a target for training besides those held out.
        self.users = [user for user in users if len(user) >= self.held_out + 2]
        self.model = RetrievalModel(config, data.items, len(data.action_values), sizes)

    def batch(self, users: Sequence[int], device: torch.device) -> RetrievalBatch:
        histories = [self._window(self.users[user][: -self.held_out]) for user in users]
        inputs = self._tokens([history[:-1] for history in histories], device)
        next_I = np.concatenate([histories[b].items[1:] for b in inputs.order])
        settings = self.config.retrieval
        samples = losses.draw(
            torch.from_numpy(next_I).to(device),
            self.data.items,
            uniform=settings.negatives,
            in_batch=settings.in_batch,
            group=settings.share,
            host=self.config.train.deterministic,
        )
        return RetrievalBatch(inputs, samples)

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
            # The queries stand at the tokens before the targets.
            before_H = torch.arange(-self.held_out, 0, device=device)
            at_I = (batch.sequences.offsets_B1[1:, None] + before_H).flatten()
            scores_IV = self.model.queries(batch, at_I) @ items_VD.T
            target_I = torch.from_numpy(self.targets(users)).to(device)
            ranks.append(metrics.target_ranks(scores_IV, target_I, self.seen(users).to(device)).cpu().numpy())
        return metrics.ranking_metrics(np.concatenate(ranks))

    def targets(self, users: Sequence[History]) -> np.ndarray:
        """[I]: the held-out items, user by user."""
        return np.concatenate([user.items[-self.held_out :] for user in users])

    def seen(self, users: Sequence[History]) -> torch.Tensor:
        """[I, V]: the items that may not be recommended again, for each target."""
        first = None if self.config.retrieval.mask == "history" else -self.config.model.max_items
        seen_IV = torch.zeros(len(users) * self.held_out, self.data.items, dtype=torch.bool)
        for row, user in enumerate(users):
            shown = user.items[:-1][first:]
            for ahead in range(self.held_out):
                known = shown[: len(shown) - (self.held_out - 1 - ahead)]
                seen_IV[row * self.held_out + ahead, known] = True
        return seen_IV

    def _window(self, history: History) -> History:
        """What a training step shows of a history: max_items inputs and the target after each."""
        longest = self.config.model.max_items + 1
        if len(history) > longest and self.config.retrieval.window == "random":
            stop = int(torch.randint(longest, len(history) + 1, ()))
            return history[stop - longest : stop]
        return history[-longest:]

    def protocol(self) -> str:
        hidden = "input" if self.config.retrieval.mask == "input" else "whole history"
        split = "leave-last-out"
        if self.config.retrieval.validation:
            split = f"validation on the {self.held_out} interactions before the last, which is left aside,"
        return (
            f"{split} over {len(self.users)} users, all {self.data.items} items are candidates but those of "
            f"the {hidden}; ties count against the model; stable order by time, then file"
        )

    def _tokens(self, histories: Sequence[History], device: torch.device) -> Tokens:
        return tokens(histories, self.columns, self.config.model, device)
