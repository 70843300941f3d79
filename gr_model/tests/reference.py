"""The formulas of "Actions Speak Louder than Words", one sequence, query and key at a time, in float64 NumPy.

Nothing of gr_model is called: weights come as arrays, sequences as lists.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class LayerWeights:
    uvqk: Array  # [D, 2 N V + 2 N A]
    output: Array  # [D, N V], or [D, 3 N V] of [u, a, a u]
    output_bias: Array
    position: Array
    time: Array


@dataclass(frozen=True)
class Shape:
    heads: int
    qk_dim: int
    value_dim: int
    max_tokens: int
    eps: float = 1e-6


def weights_of(layer) -> LayerWeights:
    w = {name: value.detach().double().numpy() for name, value in layer.named_parameters()}
    bias = "attention.bias"
    return LayerWeights(w["uvqk"], w["output.weight"], w["output.bias"], w[f"{bias}.position"], w[f"{bias}.time"])


def silu(x):
    return x / (1 + np.exp(-x))


def norm(x, eps):
    centred = x - x.mean()
    return centred / np.sqrt((centred**2).mean() + eps)


def sees(i: int, j: int, history: int, contexts: int) -> bool:
    """Token i sees token j: those before it; a target only the history and itself; a contextual token all history."""
    if i >= history:
        return j < history or j == i
    return j < history and (j <= i or i < contexts)


def bucket(seconds: int, buckets: int) -> int:
    return min(int(np.log(np.float32(max(1, seconds))) / np.float32(0.301)), buckets - 1)


def layer(x: Array, times, w: LayerWeights, shape: Shape, history: int | None = None, contexts: int = 0) -> Array:
    """[n, D] of one sequence -> [n, D]."""
    n, history = len(x), len(x) if history is None else history
    a, v = shape.qk_dim, shape.value_dim
    mixed = [silu(norm(row, shape.eps) @ w.uvqk) for row in x]
    widths = np.cumsum([shape.heads * v, shape.heads * v, shape.heads * a])
    u, value, query, key = (list(part) for part in zip(*(np.split(row, widths) for row in mixed)))
    out = np.zeros((n, shape.heads * v))
    for head in range(shape.heads):
        qk, values = slice(head * a, (head + 1) * a), slice(head * v, (head + 1) * v)
        for i in range(n):
            for j in range(n):
                if not sees(i, j, history, contexts):
                    continue
                distance = max(0, min(i, history) - min(j, history))
                bias = w.position[distance] + w.time[bucket(int(times[i]) - int(times[j]), len(w.time))]
                score = query[i][qk] @ key[j][qk] + bias
                out[i, values] += silu(score) / shape.max_tokens * value[j][values]
    read = [u[i] * norm(out[i], shape.eps) for i in range(n)]
    if w.output.shape[1] == 3 * shape.heads * v:
        read = [np.concatenate([u[i], norm(out[i], shape.eps), read[i]]) for i in range(n)]
    return np.stack([x[i] + w.output @ read[i] + w.output_bias for i in range(n)])


def unit(x: Array, eps: float = 1e-6) -> Array:
    return x / max(np.linalg.norm(x), eps)


def sampled_softmax(queries, targets, negatives, items: Array, temperature: float, in_batch: int = 0) -> float:
    """Mean of -log p(target) among the target and those of the token's negatives that are other items.

    The last `in_batch` negatives of each token were drawn from the targets: their probabilities are divided by how much
    likelier than a uniform draw that made them.
    """
    losses = []
    for query, target, drawn in zip(queries, targets, negatives, strict=True):
        own = unit(query) @ unit(items[target]) / temperature
        total = np.exp(own)
        for place, item in enumerate(drawn):
            popular = place >= len(drawn) - in_batch
            likelier = targets.count(item) / len(targets) * len(items) if popular else 1.0
            if item != target:
                total += np.exp(unit(query) @ unit(items[item]) / temperature) / likelier
        losses.append(np.log(total) - own)
    return float(np.mean(losses))


def logits(x: Array, scale: Array, shift: Array, weight: Array, bias: Array, eps: float) -> Array:
    """[T] of one token: a norm and a linear layer."""
    return weight @ (norm(x, eps) * scale + shift) + bias


def cross_entropy(scores, labels) -> float:
    """Mean of -log of the probability sigmoid gives each binary label; both [I, T]."""
    probability = 1 / (1 + np.exp(-np.array(scores)))
    return float(np.mean(-np.log(np.where(np.array(labels), probability, 1 - probability))))
