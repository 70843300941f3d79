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

from gr_model import draws, evaluation, metrics, world
from gr_model.config import Config
from gr_model.data.interactions import History, Interactions, select
from gr_model.hstu import HSTU
from gr_model.preprocess import Preprocess, Tokens, tokens

NEGATIVES = 1 << 20  # stream of the negatives' numbers; those of dropout modules count from 0


@dataclass(frozen=True)
class RetrievalBatch:
    tokens: Tokens
    samples_IR: torch.Tensor  # column 0 is the next item, the others are drawn at random


class RetrievalModel(nn.Module):
    def __init__(self, config: Config, items: int, actions: int, feature_sizes: Sequence[int]) -> None:
        super().__init__()
        self.temperature, self.norm_eps = config.retrieval.temperature, config.model.norm_eps
        self.preprocess = Preprocess(config.model, items, actions, feature_sizes, config.embedding)
        self.hstu = HSTU(config.model)

    def forward(self, batch: RetrievalBatch) -> torch.Tensor:
        """The mean loss over all interactions."""
        rows_UD, (items_I, samples_IR) = self.preprocess.item.lookup(batch.tokens.items_I, batch.samples_IR)
        query_ID = self.queries(batch.tokens, batch.tokens.last_at_I, rows_UD.index_select(0, items_I))
        logits_IR = sampled_scores(query_ID, self.normalized(rows_UD), samples_IR) / self.temperature
        # A negative that is the target by accident would pull both ways.
        accident_IR = batch.samples_IR == batch.samples_IR[:, :1]
        accident_IR[:, 0] = False
        logits_IR = logits_IR.masked_fill(accident_IR, float("-inf"))
        return (logits_IR.logsumexp(1) - logits_IR[:, 0]).mean()

    def queries(self, batch: Tokens, at: torch.Tensor, items_ID: torch.Tensor | None = None) -> torch.Tensor:
        x_LD = self.hstu(self.preprocess(batch, items_ID), batch.sequences)
        return self.normalized(x_LD.index_select(0, at))

    def items(self) -> torch.Tensor:
        return torch.cat([self.normalized(rows_UD) for rows_UD in self.preprocess.item.all_rows()])

    def normalized(self, x: torch.Tensor) -> torch.Tensor:
        return F.normalize(x, dim=1, eps=self.norm_eps)


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
        self.config, self.data, self.step = config, data, 0
        self.columns, sizes = data.choose_features(config.model.contextual)
        self.held_out = config.retrieval.validation or 1
        # Shortest history that has an input and a target for training besides those held out.
        drop = 1 if config.retrieval.validation else 0
        self.users = select(data.users, shortest=self.held_out + 2, drop=drop)
        self.model = RetrievalModel(config, data.items, len(data.action_values), sizes)

    def batch(
        self, users: Sequence[int], device: torch.device, histories: Sequence[History] | None = None
    ) -> RetrievalBatch:
        """`histories` of these users, where they were read already. With train.deterministic negatives are by user."""
        whole = [self.users[user] for user in users] if histories is None else histories
        histories = [self._window(history[: -self.held_out]) for history in whole]
        inputs = self._tokens([history[:-1] for history in histories], device)
        next_I = np.concatenate([histories[b].items[1:] for b in inputs.order])
        negatives = self._negatives([users[b] for b in inputs.order], inputs, device)
        return RetrievalBatch(inputs, torch.cat([torch.from_numpy(next_I)[:, None].to(device), negatives], dim=1))

    def _negatives(self, users: Sequence[int], inputs: Tokens, device: torch.device) -> torch.Tensor:
        count, train = self.config.retrieval.negatives, self.config.train
        if not train.deterministic:
            return torch.randint(self.data.items, (len(inputs.items_I), count), device=device)
        width = 2 if self.config.model.interleave else 1
        counts = [(length - len(self.columns)) // width for length in inputs.sequences.lengths]
        keys_I = draws.rows(train.seed, self.step, users, counts)
        return draws.integers(keys_I, NEGATIVES, count, self.data.items).to(device)

    def loss(self, batch: RetrievalBatch, model: nn.Module | None = None) -> torch.Tensor:
        """The mean over the batch; `model` stands for the task's own, wrapped for several processes."""
        return (model or self.model)(batch)

    def terms(self, batch: RetrievalBatch) -> int:
        """How many numbers the loss is the mean of."""
        return len(batch.samples_IR)

    @torch.no_grad()
    def evaluate(self, device: torch.device) -> dict[str, float]:
        """Of all users, spread over the processes; items are scored in chunks, never users x items at once."""
        self.model.eval()
        chunks = [self.model.normalized(rows_UD) for rows_UD in self.model.preprocess.item.all_rows()]
        ranks = [np.empty(0, np.int64)]
        for users, counts in world.current().shares(self.users, self.config.train.batch):
            batch = self._tokens([user[:-1] for user in users], device)
            users = [users[b] for b in batch.order]
            # The queries stand at the tokens before the targets.
            before_H = torch.arange(-self.held_out, 0, device=device)
            at_I = (batch.sequences.offsets_B1[1:, None] + before_H).flatten()
            found = evaluation.target_ranks(
                self.model.queries(batch, at_I), chunks, self.targets(users), *self.seen(users)
            )
            if counts:
                ranks.append(found)
        return metrics.ranking_metrics(world.current().gather(np.concatenate(ranks)))

    def targets(self, users: Sequence[History]) -> np.ndarray:
        """[I]: the held-out items, user by user."""
        return np.concatenate([user.items[-self.held_out :] for user in users])

    def seen(self, users: Sequence[History]) -> tuple[np.ndarray, np.ndarray]:
        """(row, item) of what may not be recommended again: row i is the i-th of `targets`."""
        first = None if self.config.retrieval.mask == "history" else -self.config.model.max_items
        rows, items = [], []
        for row, user in enumerate(users):
            shown = user.items[:-1][first:]
            for ahead in range(self.held_out):
                known = np.unique(shown[: len(shown) - (self.held_out - 1 - ahead)])
                rows.append(np.full(len(known), row * self.held_out + ahead))
                items.append(known)
        return np.concatenate(rows), np.concatenate(items)

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
