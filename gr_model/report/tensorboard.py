"""Scalars of a run for TensorBoard, where they are asked for."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from gr_model.common import in_image
from gr_model.common.errors import GrModelError


class BoardMissing(GrModelError, RuntimeError):
    pass


class Board:
    """Without a path nothing is written. `purge`: the step at which a run goes on; what stands after it goes.

    The file's name ends in `suffix`.
    """

    def __init__(self, path: Path | None, purge: int = 0, suffix: str = "") -> None:
        self._writer: Any = None
        if path:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                how = in_image.pip_install("tensorboard", "gr_model.train")
                raise BoardMissing(f"--tensorboard needs the package tensorboard ({error})\n  next: {how}") from None
            self._writer = SummaryWriter(str(path), purge_step=purge + 1 if purge else None, filename_suffix=suffix)

    def __enter__(self) -> Board:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def step(self, step: int, fields: dict[str, Any]) -> None:
        if self._writer is None:
            return
        for name in ("loss", "lr", "mfu", "gradient_norm"):
            if name in fields:
                self._writer.add_scalar(f"train/{name}", fields[name], step)
        self._writer.add_scalar("train/tokens per second", fields["tokens"] / fields["seconds"], step)
        for name, seconds in fields["phases"].items():
            self._writer.add_scalar(f"seconds/{name}", seconds, step)
        for name, value in fields.get("memory", {}).items():
            self._writer.add_scalar(f"memory/{name}", value, step)

    def metrics(self, step: int, metrics: dict[str, float]) -> None:
        if self._writer is not None:
            for name, value in metrics.items():
                self._writer.add_scalar(f"test/{name}", value, step)
