"""Ranking: from what came before, predict the actions on a shown item; one logit per task, AUC per task.

Protocol: the newest `ranking.held_out` interactions of each user are the test, the loss covers those before them.
A prediction sees all earlier actions (also earlier ones of the test), never the action or the time of its own item.
With `ranking.candidates` the newest so many interactions that are shown are candidates, as when a list of items is to
be ordered: each sees the history before all of them and itself. Then the loss covers the candidates alone, and of the
test no action is seen.
Shape suffixes: as in preprocess.py; T tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from gr_model.common import ticker
from gr_model.common.ticker import Say
from gr_model.config import Config, ConfigError
from gr_model.data.interactions import History, Interactions, select
from gr_model.model import heads
from gr_model.model.backbone import backbone
from gr_model.model.dcn import DCNv2
from gr_model.model.preprocess import Preprocess, Tokens, tokens
from gr_model.runtime.transfer import to_device
from gr_model.runtime.world import World
from gr_model.tasks import metrics, stochastic_length
from gr_model.tasks.base import Batch, Task


@dataclass(frozen=True)
class RankingBatch(Batch):
    labels_IT: torch.Tensor  # of tokens.scored_I

    @property
    def item_ids(self) -> tuple[torch.Tensor, ...]:
        return (self.tokens.items_I,)

    @property
    def terms(self) -> int:
        return int(self.labels_IT.numel())

    def loss(self, model: nn.Module) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(model(self.tokens), self.labels_IT)


class RankingModel(nn.Module):
    def __init__(self, config: Config, items: int, actions: int, feature_sizes: Sequence[int]) -> None:
        super().__init__()
        self.preprocess = Preprocess(config.model, items, actions, feature_sizes, config.embedding)
        self.backbone = backbone(config.model)
        self.head = heads.head(config, config.model.dim)

    def forward(self, batch: Tokens) -> torch.Tensor:
        """logits_IT of batch.scored_I, read at the token of the item: its action comes after."""
        x_LD = self.backbone(self.preprocess(batch), batch.sequences)
        return self.head(x_LD, batch.of_scored(batch.item_at_I))


class Ranking(Task):
    def __init__(self, config: Config, data: Interactions, world: World | None = None) -> None:
        super().__init__(config, data, world or World())
        unknown = [name for name in config.ranking.tasks if name not in data.tasks]
        if unknown:
            raise ConfigError(
                f"ranking.tasks: unknown {', '.join(unknown)}; valid: {', '.join(data.tasks)}\n"
                f"  next: the same command with ranking.tasks={','.join(data.tasks)}"
            )
        if config.ranking.held_out > config.model.max_items:
            raise ConfigError("ranking.held_out: must not exceed model.max_items")
        self.columns, sizes = data.choose_features(config.model.contextual)
        self.users = select(data.users, shortest=config.ranking.held_out + 1)
        self._labels: dict[torch.device, torch.Tensor] = {}
        model = DCNv2 if config.model.backbone == "dcn" else RankingModel
        self.model = model(config, data.items, len(data.action_values), sizes)

    def batch(
        self,
        users: Sequence[int],
        device: torch.device,
        histories: Sequence[History] | None = None,
        counts: bool = True,
        step: int = 0,
    ) -> RankingBatch:
        """Whether the batch counts is the loss's matter."""
        whole = [self.users[user] for user in users] if histories is None else histories
        known = [history[: -self.config.ranking.held_out] for history in whole]
        shown = [self._part(history, user, step) for history, user in zip(known, users, strict=True)]
        return self._batch(shown, device, self.config.ranking.candidates)

    @torch.no_grad()
    def evaluate(self, device: torch.device, say: Say = ticker.nothing) -> dict[str, float]:
        self.model.eval()
        none = np.empty((0, len(self.config.ranking.tasks)), np.float32)
        scores, labels = [none], [none]
        for users, counts in self.world.batches(self.users, self.config.train.batch, say):
            # Of the test all are candidates, or all come one after the other.
            batch = self._batch(users, device, self.config.ranking.held_out if self.config.ranking.candidates else 0)
            held_out = self.held_out(batch.tokens)
            logits_IT = self.model(batch.tokens)
            if counts:
                scores.append(logits_IT.float().cpu().numpy()[held_out])
                labels.append(batch.labels_IT.cpu().numpy()[held_out])
        score_IT, label_IT = (self.world.gather(np.concatenate(part)) for part in (scores, labels))
        return metrics.of_scores(score_IT, label_IT, self.config.ranking.tasks)

    def held_out(self, batch: Tokens) -> np.ndarray:
        """[scored] bool: those of the test."""
        if batch.sequences.targets is not None:
            return np.ones(len(batch.scored_I), bool)
        width = 2 if self.config.model.interleave else 1
        counts = [(length - len(self.columns)) // width for length in batch.sequences.lengths]
        return np.concatenate([np.arange(count) >= count - self.config.ranking.held_out for count in counts])

    def protocol(self) -> str:
        seen = "earlier actions are visible, neither the action nor the time of the item that is scored"
        if self.config.ranking.candidates:
            seen = "candidates of one list, of which neither actions nor times are visible"
        return f"newest {self.config.ranking.held_out} interactions of {len(self.users)} users held out; {seen}"

    def _part(self, history: History, user: int, step: int) -> History:
        """What a training step shows: with stochastic length a part; always the candidates."""
        if not self.config.model.stochastic_length:
            return history
        whole = history[-self.config.model.max_items :]
        older = max(0, len(whole) - self.config.ranking.candidates)
        shown = stochastic_length.shown(older, self.config, step, user)
        return whole[np.concatenate([shown, np.arange(older, len(whole))])]

    def _batch(self, histories: Sequence[History], device: torch.device, candidates: int = 0) -> RankingBatch:
        batch = tokens(
            histories,
            self.columns,
            self.config.model,
            device,
            candidates,
            self.model.preprocess.item.ids_device(device),
        )
        return RankingBatch(batch, self._labels_on(device).index_select(0, batch.of_scored(batch.actions_I)))

    def _labels_on(self, device: torch.device) -> torch.Tensor:
        """[actions, T] float32: the labels of each action. Copied to the device once."""
        if device not in self._labels:
            tasks = [self.data.tasks[name] for name in self.config.ranking.tasks]
            self._labels[device] = to_device(np.stack(tasks, 1).astype(np.float32), device)
        return self._labels[device]
