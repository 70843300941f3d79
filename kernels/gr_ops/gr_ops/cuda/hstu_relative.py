"""hstu_relative and its gradients on CUDA tensors: hstu_jagged with the relative bias inside the kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from gr_ops.cuda import attention
from gr_ops.cuda.arguments import Arguments
from gr_ops.cuda.hstu import problem_of
from gr_ops.cuda.problem import Problem, Relative

Tensors = tuple[torch.Tensor, ...]


def forward(op: Any, *values: Any) -> torch.Tensor:
    given = Arguments(op, values)
    out: torch.Tensor = given.results()
    attention.attend(_problem(given), out)
    return out


def backward(op: Any, *values: Any) -> Tensors:
    given = Arguments(op, values)
    dq, dk, dv, *_ = given.results()
    p, grad = _problem(given), given["grad"]
    return dq, dk, dv, *attention.gradients(p, grad, dq, dk, dv)


def _problem(given: Arguments) -> Problem:
    position, time, times, cells = (given[name] for name in ("position", "time", "times", "cells"))
    return replace(problem_of(given), relative=Relative(position, time, times, cells))
