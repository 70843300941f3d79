"""Everything a run depends on, as frozen dataclasses, and what does not fit together."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass, field
from typing import Any

from gr_model.common.errors import GrModelError
from gr_model.config import attention
from gr_model.config.data import DataConfig
from gr_model.config.data import faults as data_faults
from gr_model.config.embedding import EmbeddingConfig
from gr_model.config.embedding import faults as embedding_faults
from gr_model.config.setting import required, setting
from gr_model.config.synthetic import SyntheticConfig
from gr_model.config.synthetic import faults as synthetic_faults


class ConfigError(GrModelError, ValueError):
    """A preset, a key or a value that does not exist or does not fit. `faults` has each by itself."""

    def __init__(self, message: str, faults: typing.Sequence[str] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults) or (message,)


TASKS = ("retrieval", "ranking")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    backbone: str = setting(
        "hstu", "the network; dcn is DCN V2, for ranking, without attention", choices=("hstu", "sasrec", "dcn")
    )
    dim: int = setting(50, "width of a token")
    blocks: int = setting(2, "layers")
    heads: int = setting(1, "heads of a layer")
    qk_dim: int = setting(50, "width of queries and keys, per head")
    value_dim: int = setting(50, "width of values, per head")
    max_items: int = setting(200, "newest interactions that are shown to the model")
    interleave: bool = setting(False, "item, action, item, action, ... instead of items only; ranking needs it")
    contextual: tuple[str, ...] = setting((), "user features that stand before the sequence")
    attention: str = setting(
        "plain",
        "; ".join(f"{name}: {attention.IMPLEMENTATIONS[name].summary}" for name in attention.CHOICES),
        choices=attention.CHOICES,
    )
    relative_bias: bool = setting(True, "learned numbers for distances in tokens and in time, added to the scores")
    concat_ua: bool = setting(
        False, "an HSTU layer's last product reads the gate and the attended values by themselves too"
    )
    dropout: float = setting(0.2, "share of activations that a training step leaves out")
    time_buckets: int = setting(128, "distances in time that the bias tells apart, logarithmic")
    timestamps: tuple[str, ...] = setting((), "encodings of a token's time beside its position: gap, hour, weekday")
    norm_eps: float = setting(1e-6, "added to what norms divide by")
    stochastic_length: float = setting(
        0.0, "alpha in (1, 2]: training shows a random part of a long history; 0: all of it"
    )
    compile: bool = setting(False, "the parts between lookups, attention and dropout by torch.compile")
    recompute: bool = setting(False, "a layer's activations in the backward pass again, in place of keeping them")

    @property
    def max_tokens(self) -> int:
        return len(self.contextual) + self.max_items * (2 if self.interleave else 1)


@dataclass(frozen=True, kw_only=True)
class RetrievalConfig:
    negatives: int = setting(128, "of each token, drawn from all items")
    in_batch: int = setting(0, "more negatives of each token, drawn from the targets of the batch of all processes")
    share: int = setting(64, "consecutive tokens with the same negatives")
    temperature: float = setting(0.05, "scores are divided by it")
    mask: str = setting(
        "input",
        "items that cannot be recommended again: those of the input, or of the whole history",
        choices=("input", "history"),
    )
    validation: int = setting(
        0, "targets per user before the test target, to choose settings by; 0: the test target itself"
    )
    window: str = setting(
        "newest",
        "what a training step shows of a longer history: its newest max_items, or random ones in a row",
        choices=("newest", "random"),
    )


@dataclass(frozen=True, kw_only=True)
class RankingConfig:
    tasks: tuple[str, ...] = setting(("like", "love", "dislike"), "what is predicted, by the data set's names")
    held_out: int = setting(10, "newest interactions of each user, for the test")
    candidates: int = setting(
        0, "newest interactions shown as targets that do not see each other; 0: item, action, item, ..."
    )
    head: str = setting(
        "linear",
        "from a token to a logit of each task; mmoe: a mixture of experts with a gate for each task",
        choices=("linear", "mlp", "mmoe"),
    )
    hidden: int = setting(64, "width of the head's hidden layer, of each expert, and of DCN V2's deep layers")
    experts: int = setting(4, "of head=mmoe")
    rank: int = setting(16, "of DCN V2's cross layers")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    batch: int = setting(128, "users of a step, over all processes")
    steps: int = setting(808, "updates of the weights")
    lr: float = setting(1e-3, "learning rate of AdamW, which trains all but sharded and growing tables")
    beta1: float = setting(0.9, "of AdamW")
    beta2: float = setting(0.98, "of AdamW")
    weight_decay: float = setting(0.0, "of AdamW")
    warmup: int = setting(0, "steps in which the learning rate rises from 0")
    schedule: str = setting(
        "constant", "of the learning rate after the warm-up; cosine ends at 0", choices=("constant", "cosine")
    )
    ema: float = setting(0.0, "decay of the averaged weights that are evaluated; 0: the weights themselves")
    seed: int = setting(0, "of weights, order, negatives and dropout")
    eval_every: int = setting(100, "steps between evaluations; 0: only at the end")
    log_every: int = setting(10, "steps between lines on the terminal")
    checkpoint_every: int = setting(0, "steps between checkpoints; 0: only at the end")
    time_limit: float = setting(0.0, "seconds of training; 0: none")
    clip: float = setting(0.0, "largest norm of the gradient of the dense part; 0: any")
    parallel: str = setting(
        "ddp", "the dense part: copies on every process (ddp) or its pieces (fsdp)", choices=("ddp", "fsdp")
    )
    pipeline: str = setting(
        "none",
        "sparse_dist: ids of the next batches travel while one trains (not with static tables)",
        choices=("none", "sparse_dist"),
    )
    precision: str = setting(
        "fp32",
        "bf16: products of matrices in bfloat16, weights and sums in float32",
        choices=("fp32", "bf16"),
    )
    tf32: bool = setting(False, "products of float32 on a GPU with factors of 11 bits (TF32) or more, by tensor cores")
    deterministic: bool = setting(False, "the same random numbers on every device and any number of processes")


@dataclass(frozen=True, kw_only=True)
class Config:
    task: str = required("what is trained: the next item, or the actions on a shown item", choices=TASKS)
    dataset: str = setting("ml-100k", "a name of docs/training.md, or own: the file data.path")
    model: ModelConfig = field(default_factory=ModelConfig)
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    data: DataConfig = field(default_factory=DataConfig)
    synthetic: SyntheticConfig = field(default_factory=SyntheticConfig)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
    ranking: RankingConfig = field(default_factory=RankingConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        faults = list(_faults(self))
        if faults:
            raise ConfigError("; ".join(faults), faults)


def keys(config: Config) -> dict[str, Any]:
    """Dotted name -> value, for every setting."""
    flat: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            flat |= {f"{item.name}.{inner.name}": getattr(value, inner.name) for inner in dataclasses.fields(value)}
        else:
            flat[item.name] = value
    return flat


def to_json(config: Config) -> dict[str, Any]:
    return dataclasses.asdict(config)


def from_json(data: dict[str, Any]) -> Config:
    """The inverse of `to_json`; an unknown or missing section is an error."""
    hints = typing.get_type_hints(Config)
    try:
        arguments = {
            name: hints[name](**{key: tuple(v) if isinstance(v, list) else v for key, v in value.items()})
            if dataclasses.is_dataclass(hints[name])
            else value
            for name, value in data.items()
        }
        return Config(**arguments)
    except (KeyError, TypeError) as error:
        raise ConfigError(f"stored config does not fit this version of gr_model: {error}") from error


def _choices() -> dict[str, tuple[str, ...]]:
    """Dotted name -> valid values, of the settings that have such."""
    hints = typing.get_type_hints(Config)
    sections = {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}
    found = {f"{name}.{item.name}": item for name, kind in sections.items() for item in dataclasses.fields(kind)}
    return {name: item.metadata["choices"] for name, item in found.items() if item.metadata["choices"]}


CHOICES = _choices()


def _faults(config: Config) -> typing.Iterator[str]:
    model, train = config.model, config.train
    if config.task not in TASKS:
        yield f"task: unknown task {config.task!r}; valid: {', '.join(TASKS)}"
    flat = keys(config)
    for name, valid in CHOICES.items():
        if flat[name] not in valid:
            yield f"{name}: unknown choice {flat[name]!r}; valid: {', '.join(valid)}"
    if not 0 <= train.ema < 1:
        yield f"train.ema: must be in [0, 1), got {train.ema}"
    if config.task == "ranking" and not model.interleave:
        yield "model.interleave: ranking predicts an action from the item before it and needs interleave=true"
    if model.backbone == "dcn" and (config.task != "ranking" or config.ranking.candidates):
        yield "model.backbone: dcn is a model for task=ranking with ranking.candidates=0"
    if model.backbone != "hstu" and config.ranking.candidates:
        yield f"ranking.candidates: {model.backbone} has no mask for targets; valid with hstu"
    if config.task == "ranking" and config.data.path and not config.data.actions:
        yield "data.actions: ranking predicts what users did; name the columns that say it: data.actions=COLUMN"
    if config.ranking.candidates and config.ranking.candidates >= model.max_items:
        yield "ranking.candidates: must be less than model.max_items"
    if model.stochastic_length and not 1 < model.stochastic_length <= 2:
        yield f"model.stochastic_length: must be 0 or in (1, 2], got {model.stochastic_length}"
    if model.backbone != "hstu" and model.concat_ua:
        yield f"model.concat_ua: {model.backbone} has no gate; valid with hstu"
    if model.backbone == "dcn" and model.recompute:
        yield "model.recompute: dcn has no layers over tokens whose activations it could save; valid with hstu, sasrec"
    unknown = sorted(set(model.timestamps) - {"gap", "hour", "weekday"})
    if unknown or (model.timestamps and model.backbone == "dcn"):
        yield f"model.timestamps: {', '.join(unknown) or 'dcn has none'}; valid with hstu, sasrec: gap, hour, weekday"
    yield from embedding_faults(config.embedding)
    yield from data_faults(config.data)
    yield from synthetic_faults(config.synthetic)
    if train.pipeline != "none" and config.embedding.kind == "static":
        yield "train.pipeline: a static table has no ids to send; choose embedding.kind=sharded, hash or embcache"
    if config.task == "ranking" and not config.ranking.tasks:
        yield "ranking.tasks: at least one task"
    positive = {
        "model.dim": model.dim,
        "model.blocks": model.blocks,
        "model.heads": model.heads,
        "model.qk_dim": model.qk_dim,
        "model.value_dim": model.value_dim,
        "model.max_items": model.max_items,
        "model.time_buckets": model.time_buckets,
        "retrieval.negatives": config.retrieval.negatives,
        "retrieval.share": config.retrieval.share,
        "ranking.hidden": config.ranking.hidden,
        "ranking.experts": config.ranking.experts,
        "ranking.rank": config.ranking.rank,
        "retrieval.temperature": config.retrieval.temperature,
        "ranking.held_out": config.ranking.held_out,
        "data.prefetch": config.data.prefetch,
        "train.batch": train.batch,
        "train.lr": train.lr,
        "train.log_every": train.log_every,
    }
    for name, value in positive.items():
        if not value > 0:
            yield f"{name}: must be greater than 0, got {value}"
    at_least_zero = {
        "train.steps": train.steps,
        "train.eval_every": train.eval_every,
        "train.warmup": train.warmup,
        "train.weight_decay": train.weight_decay,
        "retrieval.validation": config.retrieval.validation,
        "retrieval.in_batch": config.retrieval.in_batch,
        "ranking.candidates": config.ranking.candidates,
        "data.workers": config.data.workers,
        "data.bad_rows": config.data.bad_rows,
        "train.clip": train.clip,
        "train.checkpoint_every": train.checkpoint_every,
        "train.time_limit": train.time_limit,
    }
    for name, value in at_least_zero.items():
        if value < 0:
            yield f"{name}: must not be negative, got {value}"
    if not 0 <= model.dropout < 1:
        yield f"model.dropout: must be in [0, 1), got {model.dropout}"
