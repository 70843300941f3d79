"""Data with a known rule, at any size: what the best possible model reaches can be computed.

`sequences`: ids by Zipf's law, each item with a successor. `actions`: eight binary signals with known probabilities.
Shape suffixes: U users, S interactions of each, V items, G genres, T tasks, K segments of users.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gr_model.data.interactions import History, Interactions

Array = np.ndarray


@dataclass(frozen=True)
class Planted:
    """The rule by which the next item is drawn.

    A user likes one genre, which nobody is told. With probability `follow` the next item is the successor of the last
    one, with probability `skip` the successor of the one before it, else one of the user's genre by Zipf's law.
    """

    follow: float
    skip: float
    successor_V: Array
    taste_GV: Array  # P(item | genre)

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
            chance[self.successor_V[items[-1]]] += self.follow
        if len(items) > 1:
            chance[self.successor_V[items[-2]]] += self.skip
        return chance


def sequences(
    users: int = 1000, items: int = 200, length: int = 40, genres: int = 4, follow: float = 0.5, skip: float = 0.2,
    zipf: float = 1.0, seed: int = 0,
) -> tuple[Interactions, Planted]:  # fmt: skip
    """Users with `length` interactions each, one an hour, and the rule behind them."""
    rng = np.random.default_rng(seed)
    genre_V, popularity_V = np.arange(items) % genres, 1 / (1 + rng.permutation(items)) ** zipf
    taste_GV = (genre_V == np.arange(genres)[:, None]) * popularity_V
    rule = Planted(follow, skip, _cycle(rng.permutation(items)), taste_GV / taste_GV.sum(1, keepdims=True))

    genre_U, edges_GV = rng.integers(genres, size=users), rule.taste_GV.cumsum(1)
    items_SU = np.empty((length, users), np.int64)
    for at in range(length):
        # Rounding may leave the last edge below 1.
        drawn = (rng.random(users)[:, None] > edges_GV[genre_U]).sum(1).clip(max=items - 1)
        chance = rng.random(users)
        if at > 1:
            drawn = np.where(chance < follow + skip, rule.successor_V[items_SU[at - 2]], drawn)
        if at > 0:
            drawn = np.where(chance < follow, rule.successor_V[items_SU[at - 1]], drawn)
        items_SU[at] = drawn
    no_actions, no_features = np.zeros(length, np.int64), np.zeros(0, np.int64)
    histories = tuple(History(row, no_actions, _hours(length), no_features) for row in items_SU.T.copy())
    return Interactions("planted sequences", histories, items, (0.0,), {}), rule


TASKS = tuple(f"task {t}" for t in range(8))


@dataclass(frozen=True)
class Signals:
    """P(signal t) = sigmoid(base_T + of the user's segment + of the item + `memory` if the last action had signal t)."""

    base_T: Array
    segment_KT: Array
    item_VT: Array
    memory_T: Array

    def probabilities(self, history: History) -> Array:
        """[S, T]: of each interaction's signals, given the segment, the item and the actions before."""
        bits_ST = history.actions[:, None] >> np.arange(len(self.base_T)) & 1
        before_ST = np.concatenate([np.zeros_like(bits_ST[:1]), bits_ST[:-1]])
        logit_ST = self.base_T + self.segment_KT[history.features[0]] + self.item_VT[history.items]
        return 1 / (1 + np.exp(-(logit_ST + self.memory_T * before_ST)))


def actions(
    users: int = 1000, items: int = 100, length: int = 40, segments: int = 6, zipf: float = 0.6, seed: int = 0
) -> tuple[Interactions, Signals]:
    """Users of a known segment see items by Zipf's law; each action is a set of eight signals, as bits."""
    rng = np.random.default_rng(seed)
    width = len(TASKS)
    rule = Signals(
        base_T=np.linspace(-2.0, 0.5, width),
        segment_KT=rng.normal(0, 0.7, (segments, width)),
        item_VT=rng.normal(0, 1.0, (items, width)),
        memory_T=np.linspace(0.0, 1.4, width),
    )
    shown = 1 / (1 + rng.permutation(items)) ** zipf
    histories = []
    for _ in range(users):
        segment = np.array([rng.integers(segments)])
        seen, chance_ST = rng.choice(items, length, p=shown / shown.sum()), rng.random((length, width))
        before_T, action_S = np.zeros(width, np.int64), np.empty(length, np.int64)
        for at, item in enumerate(seen):
            logit_T = rule.base_T + rule.segment_KT[segment[0]] + rule.item_VT[item] + rule.memory_T * before_T
            before_T = (chance_ST[at] < 1 / (1 + np.exp(-logit_T))).astype(np.int64)
            action_S[at] = (before_T << np.arange(width)).sum()
        histories.append(History(seen, action_S, _hours(length), segment))
    masks = np.arange(1 << width)
    tasks = {name: (masks >> t & 1).astype(bool) for t, name in enumerate(TASKS)}
    values = tuple(float(mask) for mask in masks)
    return Interactions("planted actions", tuple(histories), items, values, {"segment": segments}, tasks), rule


def _hours(length: int) -> Array:
    return 10**9 + 3600 * np.arange(length)


def _cycle(order: Array) -> Array:
    """The successor of each item where the items stand in one ring in this order."""
    successor = np.empty_like(order)
    successor[order] = np.roll(order, -1)
    return successor
