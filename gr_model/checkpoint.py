"""Checkpoints: one file, written whole or not at all."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch

from gr_model.files import replacing

FORMAT = 1


class CheckpointError(RuntimeError):
    pass


def save(path: Path, state: dict[str, Any]) -> None:
    with replacing(path) as file:
        torch.save({"format": FORMAT, **_to_cpu(state)}, file)


def load(path: Path) -> dict[str, Any]:
    """Tensors on the CPU; only plain data is read, never code."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such checkpoint") from None
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError) as error:
        raise CheckpointError(f"{path}: not a readable checkpoint ({error})") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CheckpointError(f"{path}: not a checkpoint of format {FORMAT}")
    return state


def _to_cpu(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: _to_cpu(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_to_cpu(item) for item in value)
    return value
