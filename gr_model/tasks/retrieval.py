"""Retrieval: predict the next item. Sampled softmax over l2-normalised dot products; evaluation over all items.

Protocol: leave-last-out. Each user's last interaction is the test target; the model trains on what is before it. All
items are candidates except those that the user has seen (`retrieval.mask`: in the input, or in the whole history);
ties count against the model (evaluation.target_ranks). With `retrieval.validation=k` the test target is left aside, the
k interactions before it are the targets and the model trains on what is before those: settings are chosen on them, not
on the test.
Shape suffixes: as in preprocess.py; V items of the catalogue, R samples (the target first).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from gr_model.common import draws, ticker
from gr_model.common.ticker import Say
from gr_model.config import Config
from gr_model.data.interactions import History, Interactions, select
from gr_model.embedding import tables
from gr_model.model import fused_ops
from gr_model.model.backbone import backbone
from gr_model.model.preprocess import Preprocess, Tokens, tokens
from gr_model.runtime.transfer import to_device
from gr_model.runtime.world import World
from gr_model.tasks import evaluation, losses, metrics, stochastic_length
from gr_model.tasks.base import Batch, Task
from gr_model.tasks.losses import Samples


@dataclass(frozen=True)
class RetrievalBatch(Batch):
    samples: Samples

    @property
    def item_ids(self) -> tuple[torch.Tensor, ...]:
        return self.tokens.items_I, self.samples.targets_I, self.samples.negatives_GR

    @property
    def terms(self) -> int:
        return len(self.samples.targets_I)

    def loss(self, model: nn.Module) -> torch.Tensor:
        loss: torch.Tensor = model(self)
        return loss


class RetrievalModel(nn.Module):
    def __init__(self, config: Config, items: int, actions: int, feature_sizes: Sequence[int]) -> None:
        super().__init__()
        self.temperature, self.norm_eps = config.retrieval.temperature, config.model.norm_eps
        self.fused = config.model.attention == "fused"
        self.preprocess = Preprocess(config.model, items, actions, feature_sizes, config.embedding)
        self.backbone = backbone(config.model)

    def forward(self, batch: RetrievalBatch) -> torch.Tensor:
        """The mean loss over all interactions."""
        # One lookup for all that the step needs; from here on ids are places in rows_UD.
        rows_UD, (items_I, targets_I, negatives_GR) = self.preprocess.item.lookup(*batch.item_ids)
        samples = replace(batch.samples, targets_I=targets_I, negatives_GR=negatives_GR)
        x_ID = self._last(batch.tokens, batch.tokens.last_at_I, rows_UD.index_select(0, items_I))
        return self.loss(x_ID, rows_UD, samples)

    def loss(self, x_ID: torch.Tensor, rows_UD: torch.Tensor, samples: Samples) -> torch.Tensor:
        """Of what the backbone leaves of each interaction and of the table's rows, neither scaled to length 1 yet."""
        if self.fused and fused_ops.has_sampled_softmax(x_ID, rows_UD):
            return losses.fused_softmax(x_ID, rows_UD, samples, self.temperature, self.norm_eps)
        return losses.sampled_softmax(self._unit(x_ID), partial(self._unit_rows, rows_UD), samples, self.temperature)

    def queries(self, batch: Tokens, at: torch.Tensor) -> torch.Tensor:
        """For evaluation. FSDP treats it as a forward of its own, so the training's forward must not call it."""
        return self._unit(self._last(batch, at, None))

    def _last(self, batch: Tokens, at: torch.Tensor, items_ID: torch.Tensor | None) -> torch.Tensor:
        """`items_ID`: the rows of the batch's items, where they were looked up already."""
        x_LD = self.backbone(self.preprocess(batch, items_ID), batch.sequences)
        return x_LD.index_select(0, at)

    def items(self) -> torch.Tensor:
        """[V, D] of length 1."""
        return torch.cat(self.item_chunks(tables.CHUNK))

    def item_chunks(self, rows: int) -> list[torch.Tensor]:
        """The same, cut into `rows` each."""
        return [self._unit(rows_UD) for rows_UD in self.preprocess.item.all_rows(rows)]

    def item_rows(self, ids: torch.Tensor) -> torch.Tensor:
        """items()[ids]"""
        rows_UD, (at,) = self.preprocess.item.lookup(ids)
        return self._unit_rows(rows_UD, at)

    def _unit_rows(self, rows_UD: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Of a large table only the rows that are asked for are normalised."""
        if len(rows_UD) <= len(at):
            return self._unit(rows_UD).index_select(0, at)
        return self._unit(rows_UD.index_select(0, at))

    def _unit(self, x: torch.Tensor) -> torch.Tensor:
        return F.normalize(x, dim=1, eps=self.norm_eps)


class Retrieval(Task):
    model: RetrievalModel

    def __init__(self, config: Config, data: Interactions, world: World | None = None) -> None:
        super().__init__(config, data, world or World())
        self.columns, sizes = data.choose_features(config.model.contextual)
        self.held_out = config.retrieval.validation or 1
        # Shortest history that has an input and a target for training besides those held out.
        drop = 1 if config.retrieval.validation else 0
        self.users = select(data.users, shortest=self.held_out + 2, drop=drop)
        self.model = RetrievalModel(config, data.items, len(data.action_values), sizes)

    def batch(
        self,
        users: Sequence[int],
        device: torch.device,
        histories: Sequence[History] | None = None,
        counts: bool = True,
        step: int = 0,
    ) -> RetrievalBatch:
        """Batches that do not count give no negatives.

        With retrieval.in_batch all processes must make their batches of a step.
        """
        whole = [self.users[user] for user in users] if histories is None else histories
        histories = [self._window(history[: -self.held_out], user, step) for history, user in zip(whole, users)]
        inputs_of = [len(history) - 1 for history in histories]
        kept = [stochastic_length.shown(n, self.config, step, user) for n, user in zip(inputs_of, users)]
        inputs = self._tokens([history[part] for history, part in zip(histories, kept)], device)
        # The target of an input is what came next, also where that is not shown.
        next_I = np.concatenate([histories[b].items[kept[b] + 1] for b in inputs.order])
        settings = self.config.retrieval
        shown = [users[b] for b in inputs.order]
        pool = self._pool(shown, [len(kept[b]) for b in inputs.order], next_I, counts) if settings.in_batch else next_I
        ids_device = self.model.preprocess.item.ids_device(device)
        samples = losses.draw(
            to_device(next_I, ids_device),
            self.data.items,
            uniform=settings.negatives,
            in_batch=settings.in_batch,
            group=settings.share,
            by_user=self._groups_of_users(shown, inputs, step),
            pool_P=to_device(pool, ids_device),
        )
        return RetrievalBatch(inputs, samples.ready_on(device))

    def _pool(self, users: Sequence[int], lengths: Sequence[int], next_I: np.ndarray, counts: bool) -> np.ndarray:
        """[P] int64: the targets of the step on all processes, by user: the same however they are spread."""
        of_user = np.stack([np.repeat(users, lengths), next_I], axis=1).astype(np.int32)
        everyone = self.world.gather(of_user if counts else of_user[:0])
        return everyone[np.argsort(everyone[:, 0], kind="stable"), 1].astype(np.int64)

    def _groups_of_users(self, users: Sequence[int], inputs: Tokens, step: int) -> losses.ByUser | None:
        """With train.deterministic: whose tokens they are, so that any spread over processes draws the same."""
        train = self.config.train
        if not train.deterministic:
            return None
        width = 2 if self.config.model.interleave else 1
        counts = tuple((length - len(self.columns)) // width for length in inputs.sequences.lengths)
        return losses.ByUser(train.seed, step, tuple(users), counts)

    def evaluate(self, device: torch.device, say: Say = ticker.nothing) -> dict[str, float]:
        """Of all users, spread over the processes; items are scored in chunks, never users x items at once."""
        return metrics.of_ranks(self.ranks(device, say).ravel())

    @torch.no_grad()
    def ranks(self, device: torch.device, say: Say = ticker.nothing) -> np.ndarray:
        """[U, H] int64, from 1: of the H held-out items of each user, in order; the same on every process."""
        self.model.eval()
        chunks = self.model.item_chunks(tables.CHUNK)
        ranks_UH = [np.empty((0, self.held_out), np.int64)]
        for users, counts in self.world.batches(self.users, self.config.train.batch, say):
            batch = self._tokens([user[:-1] for user in users], device)
            by_length = [users[b] for b in batch.order]
            query_ID = self.model.queries(batch, self._before_targets(batch))
            found = evaluation.target_ranks(query_ID, chunks, self.targets(by_length), *self.seen(by_length))
            if counts:
                ranks_UH.append(found.reshape(-1, self.held_out)[np.argsort(batch.order)])
        return self.world.gather(np.concatenate(ranks_UH))

    def _before_targets(self, batch: Tokens) -> torch.Tensor:
        """The last token of each of the newest H interactions shown: the targets are what came after them."""
        width = 2 if self.config.model.interleave else 1
        stop_B = np.cumsum([(length - len(self.columns)) // width for length in batch.sequences.lengths])
        newest_I = (stop_B[:, None] + np.arange(-self.held_out, 0)).ravel()
        return batch.last_at_I.index_select(0, to_device(newest_I, batch.last_at_I.device))

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

    def _window(self, history: History, user: int, step: int) -> History:
        """What a training step shows of a history: max_items inputs and the target after each."""
        longest = self.config.model.max_items + 1
        if len(history) > longest and self.config.retrieval.window == "random":
            choices = len(history) + 1 - longest
            if self.config.train.deterministic:
                key = draws.rows(self.config.train.seed, step, [user], [1])
                stop = longest + int(draws.integers(key, draws.WINDOW, 1, choices))
            else:
                stop = longest + int(torch.randint(choices, ()))
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
        ids_device = self.model.preprocess.item.ids_device(device)
        return tokens(histories, self.columns, self.config.model, device, ids_device=ids_device)
