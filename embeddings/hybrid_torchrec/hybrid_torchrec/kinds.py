"""The kinds of optimizers, eviction policies and initialisers: a row each, read by every back end.

Kinds go by number into C++ and into the kernels of devices, and by name into checkpoints. csrc/*/*_kinds.h and the
table of README.md are generated from the rows:

    python embeddings/hybrid_torchrec/generate_kinds.py

docs/develop/optimizer.md and docs/develop/eviction-policy.md say what else a new row needs. This file needs the
standard library only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeVar


class Numbered(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def number(self) -> int: ...


Kind = TypeVar("Kind", bound=Numbered)


def listed(kinds: Mapping[str, Kind]) -> str:
    """The numbers and names, for messages: "0 (sgd), 1 (adagrad)"."""
    return ", ".join(f"{kind.number} ({kind.name})" for kind in kinds.values())


def by_name(*rows: Kind) -> Mapping[str, Kind]:
    """Raises ValueError for names or numbers that are not distinct."""
    kinds = {row.name: row for row in rows}
    if not len(kinds) == len({row.number for row in rows}) == len(rows):
        raise ValueError(f"names and numbers of kinds must be distinct: {[(row.name, row.number) for row in rows]}")
    return MappingProxyType(kinds)


ELEMENT, ROW = "element", "row"


@dataclass(frozen=True, kw_only=True)
class OptimizerKind:
    """What is known of an optimizer.

    step: the formula, of a row's gradient g and values w at the table's step t. states: how many numbers each state
    has, one for each ELEMENT or one for each ROW (momentum1 only); they are named momentum1, momentum2. betas and eps:
    the defaults; None where the step has none. decay_is_gradient: weight_decay * w is added to g, not to the step's
    direction. whole_rows: the step of a row looks at all its columns. corrects_moments: by the number of the table's
    step. cpu: the kernel in kernels/row_math/optimizer_steps.inl (None: that of the kind's name). gr_ops: the optimizer
    of mxrec.embedding_update that takes the same step, where no decay is added to the gradient; None: on NPUs the step
    is made of PyTorch's operators. reference: where the formula is from.
    """

    name: str
    number: int
    step: str
    states: tuple[str, ...] = ()
    betas: tuple[float, float] | None = None
    eps: float | None = None
    decay_is_gradient: bool = True
    whole_rows: bool = False
    corrects_moments: bool = False
    cpu: str | None = None
    gr_ops: str | None = None
    reference: str

    @property
    def moments(self) -> int:
        """Tensors of state."""
        return len(self.states)

    @property
    def rowwise(self) -> bool:
        """Whether momentum1 has one number a row."""
        return self.states[:1] == (ROW,)

    def state_widths(self, dim: int) -> dict[str, int]:
        """Columns of each state tensor; 0 stands for one number a row."""
        return {f"momentum{at}": 0 if width == ROW else dim for at, width in enumerate(self.states, start=1)}


_ADAM = "m1 = b1 m1 + (1 - b1) g; m2 = b2 m2 + (1 - b2) g^2; u = m1 / (1 - b1^t) / (sqrt(m2 / (1 - b2^t)) + eps)"
_ADAM_BETAS = (0.9, 0.999)

OPTIMIZERS = by_name(
    OptimizerKind(name="sgd", number=0, step="w -= lr g", gr_ops="sgd", reference="torch.optim.SGD"),
    OptimizerKind(
        name="adagrad",
        number=1,
        step="m1 += g^2; w -= lr g / (sqrt(m1) + eps)",
        states=(ELEMENT,),
        eps=1e-10,
        gr_ops="adagrad",
        reference="torch.optim.Adagrad",
    ),
    OptimizerKind(
        name="rowwise_adagrad",
        number=2,
        step="m1 += mean(g^2); w -= lr g / (sqrt(m1) + eps)",
        states=(ROW,),
        eps=1e-10,
        whole_rows=True,
        gr_ops="rowwise_adagrad",
        reference="torchrec.optim.RowWiseAdagrad",
    ),
    OptimizerKind(
        name="adam",
        number=3,
        step=f"{_ADAM}; w -= lr u",
        states=(ELEMENT, ELEMENT),
        betas=_ADAM_BETAS,
        eps=1e-8,
        corrects_moments=True,
        gr_ops="adam",
        reference="torch.optim.Adam",
    ),
    OptimizerKind(
        name="adamw",
        number=4,
        step="u as adam's; w -= lr (u + decay w)",
        states=(ELEMENT, ELEMENT),
        betas=_ADAM_BETAS,
        eps=1e-8,
        decay_is_gradient=False,
        corrects_moments=True,
        cpu="adam",
        gr_ops="adam",
        reference="torch.optim.AdamW; fbgemm's Adam",
    ),
    OptimizerKind(
        name="lamb",
        number=5,
        step="u as adam's, plus decay w; w -= lr norm(w) / norm(u) u for each row; a norm of 0 makes the ratio 1",
        states=(ELEMENT, ELEMENT),
        betas=_ADAM_BETAS,
        eps=1e-6,
        decay_is_gradient=False,
        whole_rows=True,
        corrects_moments=True,
        reference="You et al. 2020, Large Batch Optimization for Deep Learning, algorithm 2; a layer is a row",
    ),
    OptimizerKind(
        name="lion",
        number=6,
        step="u = sign(b1 m1 + (1 - b1) g); m1 = b2 m1 + (1 - b2) g; w -= lr (u + decay w)",
        states=(ELEMENT,),
        betas=(0.9, 0.99),
        decay_is_gradient=False,
        reference="Chen et al. 2023, Symbolic Discovery of Optimization Algorithms, algorithm 2",
    ),
)

# The numbers of mxrec.embedding_update: kernels/gr_ops/csrc/embedding/optimizers.h.
GR_OPS_NUMBERS: Mapping[str, int] = MappingProxyType({"sgd": 0, "adagrad": 1, "rowwise_adagrad": 2, "adam": 3})


@dataclass(frozen=True, kw_only=True)
class EvictionKind:
    """What is known of an eviction policy of the index.

    name: the class in policies.py. order: which rows go first. counts_occurrences: the order depends on how often an id
    occurs in a batch. expires: only rows that were not seen for some steps may go, and they go also where there is
    room.
    """

    name: str
    number: int
    order: str
    counts_occurrences: bool
    expires: bool = False


EVICTIONS = by_name(
    EvictionKind(name="LFU", number=0, order="the fewest occurrences", counts_occurrences=True),
    EvictionKind(name="LRU", number=1, order="the least recently seen", counts_occurrences=False),
    EvictionKind(name="Score", number=2, order="the lowest score of shows and clicks", counts_occurrences=True),
    EvictionKind(
        name="TTL", number=3, order="those that were not seen for some steps", counts_occurrences=False, expires=True
    ),
)


@dataclass(frozen=True, kw_only=True)
class InitializerKind:
    """What is known of an initialiser that the devices' kernels draw.

    name: the class in initializers.py. a, b: what the first two of its parameters are; low and high, the last two, are
    the probabilities between which the truncated normal is drawn.
    """

    name: str
    number: int
    a: str
    b: str = ""


INITIALIZERS = by_name(
    InitializerKind(name="Constant", number=0, a="the value"),
    InitializerKind(name="Uniform", number=1, a="the lower bound", b="the upper bound"),
    InitializerKind(name="Normal", number=2, a="the mean", b="the standard deviation"),
    InitializerKind(name="TruncatedNormal", number=3, a="the mean", b="the standard deviation"),
)
