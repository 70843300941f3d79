"""The presets against the published set-ups, as literals: a changed preset must change this table, with its source.

ML-1M, ML-20M, Amazon Books: the hyper-parameters published with HSTU, which the peer measured on ML-100K has too
(dim 50, 2 blocks, 1 head, sequence 200, batch 128, 128 negatives, 101 epochs = 808 steps). KuaiRand-1K: the public
ranking example whose AUC is compared with (8 tasks), and the source article's benchmark (batch 32, sequence 8000, 4
heads, attention dim 128).
"""

import pytest

from gr_model.config import presets

#                         dim blocks heads head_dim tokens batch negatives steps dropout
PUBLISHED = {
    "ml-1m": (50, 2, 1, 50, 200, 128, 128, 101 * 48, 0.2),
    "ml-1m-large": (50, 8, 2, 25, 200, 128, 128, 101 * 48, 0.2),
    "ml-20m": (256, 4, 4, 64, 200, 128, 128, 101 * 1082, 0.2),
    "ml-20m-large": (256, 16, 8, 32, 200, 128, 128, 101 * 1082, 0.2),
    "amzn-books": (64, 4, 4, 16, 50, 128, 512, 201 * 5429, 0.5),
    "amzn-books-large": (64, 16, 8, 8, 50, 128, 512, 201 * 5429, 0.5),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_retrieval(name):
    config = presets.get(name)
    model, train = config.model, config.train
    assert model.qk_dim == model.value_dim
    assert (
        model.dim,
        model.blocks,
        model.heads,
        model.qk_dim,
        model.max_tokens,
        train.batch,
        config.retrieval.negatives,
        train.steps,
        model.dropout,
    ) == PUBLISHED[name]
    assert (train.lr, train.beta1, train.beta2, train.weight_decay, train.warmup) == (1e-3, 0.9, 0.98, 0.0, 0)
    assert config.retrieval.temperature == 0.05 and config.retrieval.mask == "input"
    assert model.backbone == "hstu" and model.relative_bias and not model.interleave and not model.stochastic_length
    assert config.dataset == name.removesuffix("-large")


def test_ml_100k_is_the_peers_model():
    """Dropout, temperature, learning rate and average were chosen on validation targets."""
    config = presets.get("ml-100k-retrieval")
    model, train = config.model, config.train
    assert (model.dim, model.blocks, model.heads, model.qk_dim, model.value_dim, model.max_tokens) == (
        50,
        2,
        1,
        50,
        50,
        200,
    )
    assert (train.batch, train.steps, config.retrieval.negatives) == (128, 808, 128)
    assert (model.dropout, config.retrieval.temperature, train.lr, train.ema) == (0.4, 0.15, 2e-3, 0.99)


@pytest.mark.parametrize(("name", "tokens", "batch"), [("kuairand-1k", 4096, 8), ("kuairand-1k-benchmark", 8000, 32)])
def test_kuairand(name, tokens, batch):
    config = presets.get(name)
    model, train = config.model, config.train
    assert (model.dim, model.blocks, model.heads, model.qk_dim, model.value_dim) == (512, 3, 4, 128, 128)
    assert model.max_tokens - len(model.contextual) == tokens and model.interleave
    assert (train.batch, train.lr, config.ranking.held_out, len(config.ranking.tasks)) == (batch, 1e-3, 100, 8)
    assert config.task == "ranking" and config.dataset == "kuairand-1k"


def test_kuairand_has_the_examples_head():
    ranking = presets.get("kuairand-1k").ranking
    assert (ranking.head, ranking.hidden) == ("mlp", 512)
