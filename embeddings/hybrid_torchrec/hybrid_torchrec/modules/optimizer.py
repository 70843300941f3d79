"""The fused optimizer of a collection, and its specification from torchrec's three ways to ask for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torchrec.optim
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec.optim.fused import FusedOptimizer

from hybrid_torchrec.optimizers import OptimizerSpec

_KINDS_OF_CLASSES: dict[type, str] = {
    torch.optim.SGD: "sgd",
    torch.optim.Adagrad: "adagrad",
    torch.optim.Adam: "adam",
    torch.optim.SparseAdam: "adam",
    torch.optim.AdamW: "adamw",
    torchrec.optim.SGD: "sgd",
    torchrec.optim.Adagrad: "adagrad",
    torchrec.optim.RowWiseAdagrad: "rowwise_adagrad",
    torchrec.optim.Adam: "adam",
    torchrec.optim.LAMB: "lamb",
}
_KINDS_OF_FBGEMM = {
    EmbOptimType.SGD: "sgd",
    EmbOptimType.EXACT_SGD: "sgd",
    EmbOptimType.EXACT_ADAGRAD: "adagrad",
    EmbOptimType.EXACT_ROWWISE_ADAGRAD: "rowwise_adagrad",
    EmbOptimType.ADAM: "adamw",  # fbgemm's Adam decays weights apart from the gradient
    EmbOptimType.LAMB: "lamb",
}
_LEARNING_RATE_OF_FBGEMM = 0.01
_EPS_OF_FBGEMM = 1.0e-8
# Arguments that change nothing at these values, and whose other values the fused step does not have.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "momentum": (0, 0.0),
    "dampening": (0, 0.0),
    "nesterov": (False,),
    "maximize": (False,),
    "amsgrad": (False,),
    "lr_decay": (0, 0.0),
    "initial_accumulator_value": (0, 0.0),
}
_WITHOUT_MEANING = ("foreach", "capturable", "differentiable", "fused")  # how torch computes it, not what
_FBGEMM_WITHOUT_MEANING = (
    "output_dtype",
    "stochastic_rounding",
    "enforce_hbm",
    "bounds_check_mode",
    "cache_precision",
    "cache_algorithm",
    "cache_load_factor",
    "cache_reserved_memory",
    "prefetch_pipeline",
    "multipass_prefetch_config",
    "output_dtensor",
    "uvm_host_mapped",
    "gather_uvm_cache_stats",
    "record_cache_metrics",
)


def spec_of_class(optimizer_class: type, kwargs: Mapping[str, Any], table: str) -> OptimizerSpec:
    """For `apply_optimizer_in_backward(optimizer_class, ..., kwargs)`; defaults are those of the class."""
    kind = _KINDS_OF_CLASSES.get(optimizer_class)
    if kind is None:
        names = sorted({known.__name__ for known in _KINDS_OF_CLASSES})
        raise ValueError(f"table {table}: no fused step for {optimizer_class.__name__}; one of {', '.join(names)}")
    settings = dict(_defaults(optimizer_class))
    settings.update(kwargs)
    known: dict[str, Any] = {"kind": kind}
    for name, value in settings.items():
        if name in ("lr", "eps", "weight_decay"):
            known[name] = float(value)
        elif name == "betas":
            known["betas"] = (float(value[0]), float(value[1]))
        elif name == "decoupled_weight_decay":  # of torch from 2.8 on, whose AdamW is an Adam with it
            known["kind"] = "adamw" if value else kind
        elif name in _NEUTRAL:
            if value not in _NEUTRAL[name]:
                raise ValueError(f"table {table}: {optimizer_class.__name__}({name}={value}) has no fused step")
        elif name not in _WITHOUT_MEANING:
            raise ValueError(
                f"table {table}: {optimizer_class.__name__} argument {name} is not known to the fused step"
            )
    return OptimizerSpec(**known)


def _defaults(optimizer_class: type) -> dict[str, Any]:
    """What torch.optim's constructors put into `defaults`. torchrec's own classes only name a kernel of fbgemm."""
    if optimizer_class.__module__ == "torchrec.optim.optimizers":
        return {"lr": _LEARNING_RATE_OF_FBGEMM, "eps": _EPS_OF_FBGEMM}
    empty = nn.Parameter(torch.empty(0, 1))
    defaults: dict[str, Any] = optimizer_class([empty]).defaults
    return defaults


def spec_of_fused_params(fused_params: Mapping[str, Any], table: str) -> OptimizerSpec | None:
    """For a sharder's `fused_params`; None where they name no optimizer and no learning rate."""
    if "optimizer" not in fused_params and "learning_rate" not in fused_params:
        return None
    optimizer = fused_params.get("optimizer", EmbOptimType.EXACT_SGD)
    kind = _KINDS_OF_FBGEMM.get(optimizer)
    if kind is None:
        raise ValueError(f"table {table}: no fused step for {optimizer}; one of {[str(o) for o in _KINDS_OF_FBGEMM]}")
    known: dict[str, Any] = {"kind": kind, "lr": _LEARNING_RATE_OF_FBGEMM, "eps": _EPS_OF_FBGEMM}
    betas = [0.9, 0.999]
    for name, value in fused_params.items():
        if name == "learning_rate":
            known["lr"] = float(value)
        elif name in ("eps", "weight_decay"):
            known[name] = float(value)
        elif name in ("beta1", "beta2"):
            betas[name == "beta2"] = float(value)
        elif name != "optimizer" and name not in _FBGEMM_WITHOUT_MEANING:
            raise ValueError(f"table {table}: fused_params[{name!r}] is not known to hash tables")
    return OptimizerSpec(**known, betas=(betas[0], betas[1]))


def choose_spec(
    weight: nn.Parameter, fused_params: Mapping[str, Any] | None, given: OptimizerSpec | None, table: str
) -> OptimizerSpec:
    """apply_optimizer_in_backward on the table's weight, else the config's, else fused_params, else SGD."""
    classes = getattr(weight, "_optimizer_classes", [])
    if len(classes) > 1:
        raise ValueError(f"table {table}: {len(classes)} optimizers were applied in backward; a table has one")
    if classes:
        return spec_of_class(classes[0], weight._optimizer_kwargs[0], table)
    if given is not None:
        return given
    return spec_of_fused_params(fused_params or {}, table) or OptimizerSpec()


class HashOptimizer(FusedOptimizer):
    """Shows the tables' parameter groups: learning rates are read from them at each update.

    One group for each table ("name", "lr", ...), so rates are set by `group["lr"] = ...` or any torch scheduler. The
    step itself happens in backward; step() and zero_grad() do nothing. Optimizer state belongs to rows and is saved
    with them, in the module's state_dict; it is not in this one's.
    """

    def __init__(self, weights: Mapping[str, nn.Parameter], groups: list[dict[str, Any]]) -> None:
        super().__init__(dict(weights), {}, groups)

    def step(self, closure: Any = None) -> None:
        pass

    def zero_grad(self, set_to_none: bool = False) -> None:
        pass
