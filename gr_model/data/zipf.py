"""Items by Zipf's law, by the inverse of the cumulative probability: exact, with one number for a draw.

Shape suffixes: V items, G genres.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray


class Catalogue:
    """Item i is of genre i modulo `genres`; which items are popular is drawn by `seed`. 12 bytes for an item."""

    def __init__(self, items: int, exponent: float, genres: int, seed: int) -> None:
        of_rank_V = np.random.default_rng(seed).permutation(np.arange(items, dtype=np.int32))
        # Genre by genre, in each the most popular first; a sort of 16 bits is a radix sort.
        order_V = np.argsort((of_rank_V % genres).astype(np.int16), kind="stable").astype(np.int32)
        self.item_V = of_rank_V[order_V]
        edges_V = order_V.astype(np.float64)
        edges_V += 1
        np.power(edges_V, -exponent, out=edges_V)
        self.edges_V = np.cumsum(edges_V, out=edges_V)
        self.stop_G = np.cumsum((items - np.arange(genres) + genres - 1) // genres)

    def draw(self, genre: Array, chance: Array) -> Array:
        """int64 items of these genres; `chance` in [0, 1) broadcasts with `genre`."""
        start = np.where(genre > 0, self.stop_G[genre - 1], 0)
        stop = self.stop_G[genre]
        low = np.where(start > 0, self.edges_V[start - 1], 0.0)
        point = low + chance * (self.edges_V[stop - 1] - low)
        # Rounding may put a point on the last edge.
        at = np.searchsorted(self.edges_V, point, side="right").clip(start, stop - 1)
        return self.item_V[at].astype(np.int64)

    def probabilities(self) -> Array:
        """[G, V]: P(item | genre)."""
        out_GV = np.zeros((len(self.stop_G), len(self.item_V)))
        start = 0
        for genre, stop in enumerate(self.stop_G):
            edges = self.edges_V[start:stop] - (self.edges_V[start - 1] if start else 0.0)
            out_GV[genre, self.item_V[start:stop]] = np.diff(edges, prepend=0.0) / edges[-1]
            start = stop
        return out_GV
