"""Everything a run depends on, as frozen dataclasses, and what does not fit together."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass, field
from typing import Any

from gr_model.common.errors import GrModelError
from gr_model.config import attention
from gr_model.config.embedding import EmbeddingConfig
from gr_model.config.embedding import faults as embedding_faults
from gr_model.config.synthetic import SyntheticConfig
from gr_model.config.synthetic import faults as synthetic_faults


class ConfigError(GrModelError, ValueError):
    """A preset, a key or a value that does not exist or does not fit."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    backbone: str = "hstu"  # or "sasrec"; for ranking also "dcn": DCN V2, without attention
    dim: int = 50
    blocks: int = 2
    heads: int = 1
    qk_dim: int = 50  # per head
    value_dim: int = 50  # per head
    max_items: int = 200  # newest interactions that are shown to the model
    interleave: bool = False  # item, action, item, action, ... instead of items only
    contextual: tuple[str, ...] = ()  # user features that stand before the sequence
    attention: str = "plain"  # one of config/attention.py
    relative_bias: bool = True  # learned numbers for distances in tokens and in time, added to the scores
    dropout: float = 0.2
    time_buckets: int = 128
    timestamps: tuple[str, ...] = ()  # encodings of a token's time beside its position: "gap", "hour", "weekday"
    norm_eps: float = 1e-6
    stochastic_length: float = 0.0  # alpha in (1, 2]: training shows a random part of a long history; 0: all of it
    compile: bool = False  # the parts between lookups, attention and dropout by torch.compile (compiled.py)
    recompute: bool = False  # a layer's activations in the backward pass again, in place of keeping them

    @property
    def max_tokens(self) -> int:
        return len(self.contextual) + self.max_items * (2 if self.interleave else 1)


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    bad_rows: float = 1e-3  # share of the rows of a file that may be bad and are left out
    workers: int = 0  # processes that read ahead
    prefetch: int = 2  # steps that each of them reads ahead
    start_method: str = "fork"  # of these processes, or "spawn"


@dataclass(frozen=True, kw_only=True)
class RetrievalConfig:
    negatives: int = 128  # of each token, drawn from all items
    in_batch: int = 0  # more negatives of each token, drawn from the targets of the batch of all processes
    share: int = 64  # consecutive tokens with the same negatives
    temperature: float = 0.05
    mask: str = "input"  # items that cannot be recommended again: those of the "input", or of the whole "history"
    validation: int = 0  # targets per user before the test target, to choose settings by; 0: the test target itself
    window: str = "newest"  # what a training step shows of a longer history: its "newest" max_items, or "random" ones


@dataclass(frozen=True, kw_only=True)
class RankingConfig:
    tasks: tuple[str, ...] = ("like", "love", "dislike")
    held_out: int = 10  # newest interactions of each user, for the test
    candidates: int = 0  # newest interactions shown as targets that do not see each other; 0: item, action, item, ...
    head: str = "linear"  # or "mlp", or "mmoe": a mixture of experts with a gate for each task
    hidden: int = 64  # width of the head's hidden layer, of each expert, and of DCN V2's deep layers
    experts: int = 4
    rank: int = 16  # of DCN V2's cross layers


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    batch: int = 128
    steps: int = 808
    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.98
    weight_decay: float = 0.0
    warmup: int = 0  # steps
    schedule: str = "constant"  # of the learning rate after the warm-up: "constant", or "cosine" down to 0
    ema: float = 0.0  # decay of the averaged weights that are evaluated; 0: the weights themselves
    seed: int = 0
    eval_every: int = 100
    log_every: int = 10
    checkpoint_every: int = 0  # 0: only at the end
    time_limit: float = 0.0  # seconds of training; 0: none
    clip: float = 0.0  # largest norm of the gradient of the dense part; 0: any
    parallel: str = "ddp"  # the dense part: copies on every process ("ddp") or its pieces ("fsdp")
    pipeline: str = "none"  # or "sparse_dist": ids of the next batches travel while one trains (not with static tables)
    precision: str = "fp32"  # or "bf16": products of matrices in bfloat16, weights and sums in float32
    deterministic: bool = False  # the same random numbers on every device and any number of processes


@dataclass(frozen=True, kw_only=True)
class Config:
    task: str
    dataset: str = "ml-100k"
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
            raise ConfigError("; ".join(faults))


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


TASKS = ("retrieval", "ranking")
CHOICES = {
    "model.backbone": ("hstu", "sasrec", "dcn"),
    "ranking.head": ("linear", "mlp", "mmoe"),
    "retrieval.mask": ("input", "history"),
    "retrieval.window": ("newest", "random"),
    "model.attention": attention.CHOICES,
    "data.start_method": ("fork", "spawn"),
    "train.schedule": ("constant", "cosine"),
    "train.precision": ("fp32", "bf16"),
    "train.parallel": ("ddp", "fsdp"),
    "train.pipeline": ("none", "sparse_dist"),
}


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
    if config.ranking.candidates and config.ranking.candidates >= model.max_items:
        yield "ranking.candidates: must be less than model.max_items"
    if model.stochastic_length and not 1 < model.stochastic_length <= 2:
        yield f"model.stochastic_length: must be 0 or in (1, 2], got {model.stochastic_length}"
    if model.backbone == "dcn" and model.recompute:
        yield "model.recompute: dcn has no layers over tokens whose activations it could save; valid with hstu, sasrec"
    unknown = sorted(set(model.timestamps) - {"gap", "hour", "weekday"})
    if unknown or (model.timestamps and model.backbone == "dcn"):
        yield f"model.timestamps: {', '.join(unknown) or 'dcn has none'}; valid with hstu, sasrec: gap, hour, weekday"
    yield from embedding_faults(config.embedding)
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
