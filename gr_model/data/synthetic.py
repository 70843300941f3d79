"""Data with a known rule, at any size: what the best possible model reaches can be computed.

`planted-sequences`: ids by Zipf's law, each item with a successor. `planted-actions`: eight binary signals with known
probabilities. A user's history follows from the seed and the number of the user alone, so users are drawn in blocks, in
any order; memory holds one block and a few numbers per item.
Shape suffixes: U users of a block, S interactions of each, V items, G genres, T tasks, K segments of users.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from gr_model.common import draws
from gr_model.data.interactions import History, Interactions
from gr_model.data.zipf import Catalogue
from gr_model.config.synthetic import SyntheticConfig

Array: TypeAlias = np.ndarray
CELLS = 1 << 18  # interactions of a block
# No step of a training has these numbers, so that its draws are other ones whatever its seed.
OF_USERS, OF_ITEMS = -2, -3
GENRE, TASTE, NEXT, LENGTH, SIGNAL, EFFECT = ((1 << 21) + i for i in range(6))  # streams of draws.py
TASKS = tuple(f"task {t}" for t in range(8))


@dataclass(frozen=True)
class Rule(ABC):
    """What both data sets share."""

    settings: SyntheticConfig
    name: ClassVar[str]

    @abstractmethod
    def histories(self, users_U: Array) -> list[History]:
        """Of any users, by number."""

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """What Interactions tell beside the users."""

    def all_histories(self) -> Iterator[History]:
        """User by user; one block of them is in memory."""
        block = max(1, CELLS // self.settings.length)
        for start in range(0, self.settings.users, block):
            yield from self.histories(np.arange(start, min(start + block, self.settings.users)))

    def interactions(self) -> Interactions:
        """All of it in memory."""
        return Interactions(users=tuple(self.all_histories()), **self.about())

    def _keys_US(self, users_U: Array) -> Array:
        length = self.settings.length
        return draws.rows(self.settings.seed, OF_USERS, users_U, np.full(len(users_U), length)).reshape(-1, length)

    def _chances_US(self, keys_US: Array, stream: int) -> Array:
        return draws.chances(keys_US.ravel(), stream, 1).reshape(keys_US.shape)

    def _cut(self, keys_US: Array, items_US: Array, actions_US: Array, features_U1: Array) -> list[History]:
        """To lengths from `shortest` to `length`; an interaction an hour."""
        longest, shortest = self.settings.length, self.settings.shortest or self.settings.length
        chance_U = draws.chances(keys_US[:, 0], LENGTH, 1)[:, 0]
        lengths = (shortest + chance_U * (longest + 1 - shortest)).astype(np.int64).tolist()
        times = 10**9 + 3600 * np.arange(longest)
        return [
            History(items[:n], actions[:n], times[:n], features)
            for items, actions, features, n in zip(items_US, actions_US, features_U1, lengths)
        ]


@dataclass(frozen=True)
class Planted(Rule):
    """The rule by which the next item is drawn.

    A user likes one genre, which nobody is told. With probability `follow` the next item is the successor of the last
    one, with probability `skip` the successor of the one before it, else one of the user's genre by Zipf's law.
    """

    name: ClassVar[str] = "planted sequences"

    @cached_property
    def catalogue(self) -> Catalogue:
        return Catalogue(self.settings.items, self.settings.zipf, self.settings.genres, self.settings.seed)

    @cached_property
    def successor_V(self) -> Array:
        """int32; all items stand in one ring."""
        order = np.random.default_rng((self.settings.seed, 1)).permutation(
            np.arange(self.settings.items, dtype=np.int32)
        )
        successor = np.empty_like(order)
        successor[order] = np.roll(order, -1)
        return successor

    @cached_property
    def taste_GV(self) -> Array:
        """P(item | genre); only what predicts needs it, so only of small catalogues."""
        return self.catalogue.probabilities()

    def histories(self, users_U: Array) -> list[History]:
        settings, successor_V = self.settings, self.successor_V
        keys_US = self._keys_US(users_U)
        genre_U = (draws.chances(keys_US[:, 0], GENRE, 1)[:, 0] * settings.genres).astype(np.int64)
        items_US = self.catalogue.draw(genre_U[:, None], self._chances_US(keys_US, TASTE))
        chance_US = self._chances_US(keys_US, NEXT)
        for at in range(1, settings.length):
            chance_U, drawn_U = chance_US[:, at], items_US[:, at]
            if at > 1:
                skips = chance_U < settings.follow + settings.skip
                drawn_U = np.where(skips, successor_V[items_US[:, at - 2]], drawn_U)
            items_US[:, at] = np.where(chance_U < settings.follow, successor_V[items_US[:, at - 1]], drawn_U)
        return self._cut(keys_US, items_US, np.zeros_like(items_US), np.zeros((len(users_U), 0), np.int64))

    def about(self) -> dict[str, Any]:
        return {"name": self.name, "items": self.settings.items, "action_values": (0.0,), "feature_sizes": {}}

    def next_item(self, items: Array) -> Array:
        """[V]: P(next item | items so far), with the genre integrated out."""
        posterior_G = np.full(len(self.taste_GV), 1 / len(self.taste_GV))
        for at, item in enumerate(items):
            planted = self._planted(items[:at])
            # How likely each genre makes what came; what the successors explain tells nothing about the genre.
            posterior_G = posterior_G * (planted[item] + (1 - planted.sum()) * self.taste_GV[:, item])
            posterior_G /= posterior_G.sum()
        planted = self._planted(items)
        return planted + (1 - planted.sum()) * (posterior_G @ self.taste_GV)

    def _planted(self, items: Array) -> Array:
        chance = np.zeros(len(self.successor_V))
        if len(items) > 0:
            chance[self.successor_V[items[-1]]] += self.settings.follow
        if len(items) > 1:
            chance[self.successor_V[items[-2]]] += self.settings.skip
        return chance


@dataclass(frozen=True)
class Signals(Rule):
    """P(signal t) = sigmoid(base_T + of the user's segment + of the item + `memory` if the last action had signal t).

    Users of a known segment see items by Zipf's law; each action is a set of eight signals, as bits.
    """

    name: ClassVar[str] = "planted actions"
    base_T: ClassVar[Array] = np.linspace(-2.0, 0.5, len(TASKS))
    memory_T: ClassVar[Array] = np.linspace(0.0, 1.4, len(TASKS))

    @cached_property
    def catalogue(self) -> Catalogue:
        return Catalogue(self.settings.items, self.settings.zipf, 1, self.settings.seed)

    @cached_property
    def segment_KT(self) -> Array:
        return np.random.default_rng(self.settings.seed).normal(0, 0.7, (self.settings.segments, len(TASKS)))

    def of_items(self, items: Array) -> Array:
        """[.., T]: N(0, 1), by the number of the item."""
        keys = draws.rows(self.settings.seed, OF_ITEMS, items.ravel(), np.ones(items.size, np.int64))
        return draws.normals(keys, EFFECT, len(TASKS)).reshape(*items.shape, -1)

    def probabilities(self, history: History) -> Array:
        """[S, T]: of each interaction's signals, given the segment, the item and the actions before."""
        bits_ST = history.actions[:, None] >> np.arange(len(TASKS)) & 1
        before_ST = np.concatenate([np.zeros_like(bits_ST[:1]), bits_ST[:-1]])
        logit_ST = self.base_T + self.segment_KT[history.features[0]] + self.of_items(history.items)
        return _sigmoid(logit_ST + self.memory_T * before_ST)

    def histories(self, users_U: Array) -> list[History]:
        keys_US = self._keys_US(users_U)
        segment_U = (draws.chances(keys_US[:, 0], GENRE, 1)[:, 0] * self.settings.segments).astype(np.int64)
        items_US = self.catalogue.draw(np.zeros((1, 1), np.int64), self._chances_US(keys_US, TASTE))
        fixed_UT = self.base_T + self.segment_KT[segment_U]
        actions_US, before_UT = np.empty_like(items_US), np.zeros_like(fixed_UT)
        for at in range(self.settings.length):
            logit_UT = fixed_UT + self.of_items(items_US[:, at]) + self.memory_T * before_UT
            before_UT = (draws.chances(keys_US[:, at], SIGNAL, len(TASKS)) < _sigmoid(logit_UT)).astype(np.int64)
            actions_US[:, at] = (before_UT << np.arange(len(TASKS))).sum(1)
        return self._cut(keys_US, items_US, actions_US, segment_U[:, None])

    def about(self) -> dict[str, Any]:
        masks = np.arange(1 << len(TASKS))
        return {
            "name": self.name,
            "items": self.settings.items,
            "action_values": tuple(float(mask) for mask in masks),
            "feature_sizes": {"segment": self.settings.segments},
            "tasks": {name: (masks >> t & 1).astype(bool) for t, name in enumerate(TASKS)},
        }


def sequences(**settings: Any) -> tuple[Interactions, Planted]:
    """`settings` of SyntheticConfig; the data in memory, and the rule behind it."""
    rule = Planted(SyntheticConfig(**settings))
    return rule.interactions(), rule


def actions(**settings: Any) -> tuple[Interactions, Signals]:
    """Likewise; with 100 items, by a flatter law."""
    rule = Signals(dataclasses.replace(SyntheticConfig(items=100, zipf=0.6), **settings))
    return rule.interactions(), rule


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))
