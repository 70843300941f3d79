"""Ranking: from what came before, predict the actions on a shown item; one logit per task, AUC per task.

Protocol: the newest `ranking.held_out` interactions of each user are the test, the loss covers those before them.
A prediction sees all earlier actions (also earlier ones of the test), never the action or the time of its own item.
Shape suffixes: as in preprocess.py; T tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from gr_model import metrics
from gr_model.backbone import backbone
from gr_model.config import Config, ConfigError
from gr_model.data.interactions import History, Interactions
from gr_model.preprocess import Preprocess, Tokens, tokens

TASKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "like": lambda rating: rating >= 4,
    "love": lambda rating: rating >= 5,
    "dislike": lambda rating: rating <= 2,
}


@dataclass(frozen=True)
class RankingBatch:
    tokens: Tokens
    labels_IT: torch.Tensor


class RankingModel(nn.Module):
    def __init__(self, config: Config, items: int, actions: int, feature_sizes: Sequence[int]) -> None:
        super().__init__()
        self.preprocess = Preprocess(config.model, items, actions, feature_sizes)
        self.backbone = backbone(config.model)
        self.head = nn.Sequential(
            nn.LayerNorm(config.model.dim, config.model.norm_eps),
            nn.Linear(config.model.dim, len(config.ranking.tasks)),
        )

    def forward(self, batch: Tokens) -> torch.Tensor:
        """logits_IT, read at the token of the item: its action comes after."""
        x_LD = self.backbone(self.preprocess(batch), batch.sequences)
        return self.head(x_LD.index_select(0, batch.item_at_I))


class Ranking:
    """The task: model, batches, evaluation."""

    def __init__(self, config: Config, data: Interactions) -> None:
        unknown = [name for name in config.ranking.tasks if name not in TASKS]
        if unknown:
            raise ConfigError(f"ranking.tasks: unknown {', '.join(unknown)}; valid: {', '.join(TASKS)}")
        if config.ranking.held_out > config.model.max_items:
            raise ConfigError("ranking.held_out: must not exceed model.max_items")
        self.config, self.data = config, data
        _, sizes = data.choose_features(config.model.contextual)
        self.columns = [list(data.feature_sizes).index(name) for name in config.model.contextual]
        self.users = [user for user in data.users if len(user) > config.ranking.held_out]
        self.model = RankingModel(config, data.items, len(data.action_values), sizes)

    def batch(self, users: Sequence[int], device: torch.device) -> RankingBatch:
        return self._batch([self.users[user][: -self.config.ranking.held_out] for user in users], device)

    def loss(self, batch: RankingBatch) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(self.model(batch.tokens), batch.labels_IT)

    @torch.no_grad()
    def evaluate(self, device: torch.device) -> dict[str, float]:
        self.model.eval()
        scores, labels = [], []
        for start in range(0, len(self.users), self.config.train.batch):
            batch = self._batch(self.users[start : start + self.config.train.batch], device)
            held_out = self.held_out(batch.tokens)
            scores.append(self.model(batch.tokens).cpu().numpy()[held_out])
            labels.append(batch.labels_IT.cpu().numpy()[held_out])
        score_IT, label_IT = np.concatenate(scores), np.concatenate(labels)
        return {
            f"auc/{name}": metrics.auc(score_IT[:, t], label_IT[:, t])
            for t, name in enumerate(self.config.ranking.tasks)
        }

    def held_out(self, batch: Tokens) -> np.ndarray:
        """[I] bool: the interactions of the test."""
        width = 2 if self.config.model.interleave else 1
        counts = [(length - len(self.columns)) // width for length in batch.sequences.lengths]
        return np.concatenate([np.arange(count) >= count - self.config.ranking.held_out for count in counts])

    def labels(self, histories: Sequence[History]) -> np.ndarray:
        """[I, T] float32."""
        ratings = np.array(self.data.action_values)[np.concatenate([history.actions for history in histories])]
        return np.stack([TASKS[name](ratings) for name in self.config.ranking.tasks], axis=1).astype(np.float32)

    def protocol(self) -> str:
        return (
            f"newest {self.config.ranking.held_out} interactions of {len(self.users)} users held out; earlier actions "
            "are visible, neither the action nor the time of the item that is scored"
        )

    def _batch(self, histories: Sequence[History], device: torch.device) -> RankingBatch:
        batch = tokens(histories, self.columns, self.config.model, device)
        shown = [histories[b][-self.config.model.max_items :] for b in batch.order]
        return RankingBatch(batch, torch.from_numpy(self.labels(shown)).to(device))
