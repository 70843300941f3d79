"""One call of every operator that the plugin registers: its arguments on a device, some of them with a gradient.

Keys are names with overloads; a new operator without a sample fails test_every_operator.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from embedding_cases import OPTIMIZERS, OPTIONS, SUM, Module, Optimizer, Tables
from layer_samples import BIAS, LAYER
from operator_samples import ALONE_IN_MXREC


@dataclass
class Sample:
    args: tuple[object, ...] = ()
    kwargs: dict[str, object] = field(default_factory=dict)

    def tensors(self) -> list[torch.Tensor]:
        flat = [*self.args, *self.kwargs.values()]
        return [t for a in flat for t in (a if isinstance(a, list) else [a]) if isinstance(t, torch.Tensor)]


def leaf(device: str, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(device).requires_grad_()


def uniform(device: str, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape))).to(device)


def integers(device: str, *values: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype).to(device)


def offsets(device: str) -> list[torch.Tensor]:
    return [integers(device, 0, 2, 5, 6)]


def lengths(device: str) -> torch.Tensor:
    return torch.tensor([[2, 3], [1, 4], [0, 2]]).to(device)


def cumsum(device: str) -> Sample:
    return Sample((lengths(device),))


def pad(device: str, length: object) -> Sample:
    return Sample((leaf(device, 6, 2), offsets(device), length, 1.0))


def permutation(device: str, rows: int, dtype: torch.dtype | None = None) -> Sample:
    """Floating values; integers where `dtype` says so."""
    counts = lengths(device) if rows == 12 else lengths(device)[:, 1]
    values = leaf(device, rows, 2) if dtype is None else torch.arange(rows, dtype=dtype).to(device)
    weights = leaf(device, rows) if dtype is None else None
    return Sample((integers(device, 2, 0, 0), counts, values, weights, 12 if rows == 12 else 8))


def bounds(device: str) -> Sample:
    tensors = (integers(device, 5, 3), integers(device, 0, 5, 2, 3, 2), integers(device, 0, 2, 3, 4, 5))
    return Sample((*tensors, 2, torch.zeros(1, dtype=torch.int64, device=device)))


LIST = [0, 5, 12, 12, 20]


def attention(device: str, offset: object, backward: bool = False) -> Sample:
    inputs = [leaf(device, 20, 2, d) for d in (3, 3, 4)]
    bias = leaf(device, 4, 2, 9, 9)
    if backward:
        plain = [x.detach() for x in (torch.ones_like(inputs[2]), *inputs)]
        return Sample((*plain, None, bias.detach(), "jagged", 0, 0, 0.0, offset))
    return Sample((*inputs, None, bias, 0, 0, 0.0, "jagged", offset))


def targets(device: str, backward: bool = False) -> Sample:
    sample = attention(device, None, backward)
    inputs = sample.args[: 4 if backward else 3]
    bias = sample.args[5 if backward else 4]
    counts = (integers(device, 1, 2, 0, 0), integers(device, 2, 1, 0, 3), 2, 0.7)
    return Sample((*inputs, None, bias, 0, 0, 0.0, integers(device, *LIST), *counts))


def gradients(device: str) -> Sample:
    inputs = attention(device, None, backward=True).args
    settings = ("jagged", 0, 0, 0, 0.5, 0.7, None, integers(device, *LIST), None, None, None, 0, 0, 0, False, -1, True)
    return Sample((*inputs[:6], *settings))


def varlen(device: str) -> Sample:
    q, k, v = attention(device, None).args[:3]
    queries, keys = integers(device, 0, 2, 7, 7, 9), integers(device, *LIST)
    return Sample((q.detach()[:9].requires_grad_(), k, v, None, None, 0, 0, 0, 0.0, queries, keys))


def paged(device: str) -> Sample:
    q, k = (x.detach() for x in attention(device, None).args[:2])
    cache = torch.ones(3, 2, 4, 2, 3, device=device)
    pages = [integers(device, *values) for values in ((0, 1, 1, 1, 3), (2, 0, 1), (4, 1, 1, 2))]
    return Sample((q, k, k.clone(), cache, None, None, 0, 0, 0, 0.0, integers(device, *LIST), None, None, *pages))


TABLES = Tables([6, 4], [3, 5])


def bags(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    return integers(device, 0, 5, 1, 3, 3), integers(device, 0, 2, 3, 3, 5)


def module(device: str, optimizer: str = "sgd", host: bool = False) -> Module:
    weights = torch.arange(float(TABLES.elements)).to(device)
    return Module(TABLES, Optimizer(optimizer, eps=1e-3), weights, host=host)


def lookup(device: str, optimizer: str, host: bool = False) -> Sample:
    tables = module(device, optimizer, host)
    tables.iteration = 1
    return Sample(kwargs=tables.arguments(*bags(device), SUM))


def pool(device: str) -> Sample:
    tables = module(device)
    head, (indices, starts) = tables.head(), bags(device)
    described = [head[name] for name in ("weights_offsets", "D_offsets", "total_D", "max_D", "hash_size_cumsum")]
    return Sample((tables.weights, *described, indices, starts, SUM, uniform(device, 5), 0))


def forward(device: str) -> Sample:
    tables = module(device)
    head, empty = tables.head(), torch.empty(0, device=device)
    described = [head[name] for name in ("weights_placements", "weights_offsets", "D_offsets", "total_D", "max_D")]
    unused = torch.empty(0, dtype=torch.int32, device=device)
    return Sample((tables.weights, empty, empty, *described, *bags(device), SUM, unused, unused, 0, False))


def update(device: str) -> Sample:
    tables = module(device, "adagrad")
    head = tables.head()
    described = [head[name] for name in ("weights_offsets", "D_offsets", "max_D", "hash_size_cumsum")]
    state = (1, tables.momentum1, head["weights_offsets"], None, None, 0.1, 1e-3)
    grad = uniform(device, 2, 8)
    factors = uniform(device, 5)
    return Sample((grad, tables.weights, *described, 4, *bags(device), SUM, factors, None, True, -1.0, *state))


def backward(device: str, optimizer: str) -> Sample:
    tables = module(device, optimizer)
    head, empty, (indices, starts) = tables.head(), torch.empty(0, device=device), bags(device)
    names = ("weights_placements", "weights_offsets", "D_offsets", "max_D", "hash_size_cumsum", "total_hash_size_bits")
    state = {k: v for k, v in tables.state().items() if k.startswith("momentum")}
    options = {name: getattr(tables.optimizer, name) for name in OPTIONS[optimizer]}
    options |= {"iter": 1} if optimizer == "adam" else {}
    kwargs = {
        "grad_output": uniform(device, 2, 8),
        "dev_weights": tables.weights,
        "uvm_weights": empty,
        "lxu_cache_weights": empty,
        **{name: head[name] for name in names},
        "mixed_D": True,
        "indices": indices,
        "offsets": starts,
        "pooling_mode": SUM,
        "lxu_cache_locations": empty.int(),
        "unused_": 0,
        "max_segment_length_per_warp": 32,
        "stochastic_rounding": False,
        "info_B_num_bits": 26,
        "info_B_mask_int64": 2**26 - 1,
        "use_uniq_cache_locations": False,
        "use_homogeneous_placements": True,
        **state,
        "learning_rate_tensor": torch.tensor([0.1]),
        **options,
    }
    return Sample(kwargs=kwargs)


SAMPLES: dict[str, Callable[[str], Sample]] = {
    "asynchronous_complete_cumsum": cumsum,
    "asynchronous_inclusive_cumsum": cumsum,
    "asynchronous_exclusive_cumsum": cumsum,
    **{
        f"jagged_to_padded_dense{f}{v}": lambda d, v=v: pad(d, 3 if v == ".v1" else [3])
        for f in ("", "_forward")
        for v in ("", ".v1", ".v2")
    },
    "jagged_to_padded_dense_backward": lambda d: Sample((leaf(d, 3, 4, 2), offsets(d), 6)),
    "dense_to_jagged": lambda d: Sample((leaf(d, 3, 4, 2), offsets(d), 6)),
    "dense_to_jagged_forward": lambda d: Sample((leaf(d, 3, 4, 2), offsets(d), 6)),
    "dense_to_jagged_forward.pair": lambda d: Sample((leaf(d, 3, 4, 2), offsets(d), 6)),
    "dense_to_jagged_backward": lambda d: Sample((leaf(d, 6, 2), offsets(d), [3])),
    "dense_to_jagged_backward.v1": lambda d: Sample((leaf(d, 6, 2), offsets(d), 3)),
    "permute_2D_sparse_data": lambda d: permutation(d, 12),
    "permute_1D_sparse_data": lambda d: permutation(d, 9),
    "permute_sparse_data_backward": lambda d: Sample((integers(d, 2, 0, 0), lengths(d), leaf(d, 12), 12)),
    "gather_for_rank1": lambda d: Sample((leaf(d, 5), torch.tensor([[4, 0], [2, 2]]).to(d))),
    "index_select_for_rank1_backward": lambda d: Sample((leaf(d, 3), leaf(d, 5), integers(d, 4, 0, 4))),
    "bounds_check_indices": bounds,
    "hstu_dense": lambda d: attention(d, LIST),
    "hstu_dense.tensor": lambda d: attention(d, integers(d, *LIST)),
    "hstu_dense_backward": lambda d: attention(d, LIST, backward=True),
    "hstu_dense_backward.tensor": lambda d: attention(d, integers(d, *LIST), backward=True),
    "hstu_jagged.equal": targets,
    "hstu_jagged_backward.equal": lambda d: targets(d, backward=True),
    "hstu_gradients": gradients,
    "hstu_varlen": varlen,
    "hstu_paged": paged,
    "embedding_pool": pool,
    "embedding_update": update,
    "split_embedding_codegen_forward_unweighted_cuda": forward,
    **{f"split_embedding_codegen_lookup_{n}_function": lambda d, n=n: lookup(d, n) for n in OPTIMIZERS},
    **{f"split_embedding_codegen_lookup_{n}_function_cpu": lambda d, n=n: lookup(d, n, host=True) for n in OPTIMIZERS},
    **{
        f"split_embedding_backward_codegen_{n}_unweighted_exact_cuda": lambda d, n=n: backward(d, n) for n in OPTIMIZERS
    },
    **{name: lambda d, arguments=arguments: Sample(arguments(d)) for name, arguments in {**LAYER, **BIAS}.items()},
    **{name: lambda d, arguments=arguments: Sample(arguments(d)) for name, arguments in ALONE_IN_MXREC.items()},
}
ON_THE_CPU_ALONE = (
    *(f"split_embedding_codegen_lookup_{name}_function_cpu" for name in OPTIMIZERS),
    *BIAS,
    "sampled_softmax",
    "sampled_softmax_gradients",
)
