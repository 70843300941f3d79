"""SideStream: work on a CUDA stream of its own, beside the caller's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


class SideStream:
    """A CUDA stream of high priority: the caller's kernels, which move rows, fill the GPU for long.

    On a device without streams, work is done at once.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device, priority=-1)
            self._ready, self._done = torch.cuda.Event(), torch.cuda.Event()

    @contextmanager
    def fork(self, *inputs: torch.Tensor) -> Iterator[None]:
        """Launches within begin when all earlier ones of the caller's stream have ended. inputs: made for this work;
        for others, `record_use` once will do."""
        if self._stream is None:
            yield
            return
        self._ready.record(torch.cuda.current_stream(self._device))
        self._stream.wait_event(self._ready)
        with torch.cuda.stream(self._stream):
            yield
            self._done.record(self._stream)
        self.record_use(*inputs)

    def record_use(self, *tensors: torch.Tensor) -> None:
        """Memory that work uses; given up, it is not used for something else before the work has ended."""
        if self._stream is not None:
            for tensor in tensors:
                tensor.record_stream(self._stream)

    def join(self, *results: torch.Tensor) -> None:
        """Later launches of the caller's stream begin when the work has ended; results: of it, which they take."""
        if self._stream is None:
            return
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(self._done)  # at once where there was no work
        for tensor in results:
            tensor.record_stream(stream)
