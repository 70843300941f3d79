"""The sparse pipeline: while a batch trains, the ids of the next ones are on their way to the processes that have the
rows, and rows of cached tables come from host memory and disk.

TorchRec's pipelines follow a model's forward to where a sharded module takes its input straight from the batch. So a
batch is made with the distinct ids of its lookup, and the model that a pipeline sees is the lookup and everything else.
Losses are those of plain steps to the last bit: rows are looked up and updated in the order of the batches.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from gr_model.data.loader import Work
from gr_model.embedding import lookup
from gr_model.runtime import marks
from gr_model.training.steps import ForwardResult, PreparedBatch, StepParts, StepResult

AHEAD = ("distribution", "data", "batch")  # phases that work for the steps to come


@dataclasses.dataclass
class InFlightBatch:
    """A batch between its lookup and its step, on the device already; what torchrec calls Pipelineable."""

    prepared: PreparedBatch
    ids: Any  # KeyedJaggedTensor of the distinct ids
    places: tuple[torch.Tensor, ...]
    random: tuple[torch.Tensor, ...]  # where the generators stood after the batch was made

    def to(self, device: torch.device, non_blocking: bool = False) -> InFlightBatch:
        return self

    def record_stream(self, stream: Any) -> None:
        for tensor in (self.ids.values(), self.ids.lengths(), *self.places, *_tensors(self.prepared.batch)):
            if tensor.device.type != "cpu":  # ids may be on the host
                tensor.record_stream(stream)


class Pipeline:
    """`trainer`'s steps by the pipeline that goes with its tables."""

    def __init__(self, trainer: StepParts) -> None:
        from torchrec.streamable import Pipelineable

        Pipelineable.register(InFlightBatch)
        self.trainer = trainer
        (self.table,) = (m for m in trainer.model.modules() if isinstance(m, lookup.CollectionTable))
        self.clock = trainer.clock()
        self.forward_result: ForwardResult | None = None
        self.result: StepResult | None = None
        self.model = _Step(self.table.collection, self._rest)
        self.pipeline = self._make()

    def train(self, works: Iterator[Work]) -> Iterator[StepResult]:
        """Takes from `works` ahead of the steps. Batches in flight when it is closed are not trained."""
        batches = self._batches(works)
        while True:
            self.trainer.model.train()
            self.trainer.set_table_rate()
            self.clock = self.trainer.clock()
            self.clock.seconds = dict.fromkeys(AHEAD, 0.0)  # the last steps make no batch
            try:
                with marks.step(self.trainer.step + 1, self.trainer.device):
                    self.pipeline.progress(batches)
            except StopIteration:
                return
            assert self.result is not None and self.pipeline._pipelined_modules
            yield self.result

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The table answers plain lookups, as those of an evaluation, and batches in flight stay in flight."""
        from torchrec.distributed.train_pipeline import utils

        modules = self.pipeline._pipelined_modules
        ahead = [module.forward for module in modules]
        if modules:
            every = {
                "model": self.model,
                "pipelined_modules": modules,
                "original_forwards": self.pipeline._original_forwards,
                "original_kjt_dist_forwards": self.pipeline._original_kjt_dist_forwards,
                "pipelined_postprocs": [],
            }
            detach = utils._pipeline_detach_model  # releases of torchrec after 1.1 want all of them
            detach(**{name: every[name] for name in inspect.signature(detach).parameters})
        try:
            yield
        finally:
            if modules:
                utils._override_input_dist_forwards(modules)
                for module, forward in zip(modules, ahead):
                    module.forward = forward

    def _make(self) -> Any:
        trainer, settings = self.trainer, self.trainer.config.embedding
        common = (self.model, _Finish(self), trainer.device)
        if settings.kind == "hash":
            from hybrid_torchrec.distributed import HybridTrainPipelineSparseDist

            runs_ahead = trainer.device.type == "cuda"  # batches are made while the device works
            return HybridTrainPipelineSparseDist(*common, pipe_n_batch=1 + settings.look_ahead, read_late=runs_ahead)
        if settings.kind == "embcache":
            from torchrec_embcache.pipeline import EmbCacheTrainPipelineSparseDist

            return EmbCacheTrainPipelineSparseDist(*common, look_ahead=settings.look_ahead)
        from torchrec.distributed.train_pipeline import TrainPipelineSparseDist

        return TrainPipelineSparseDist(*common)

    def _batches(self, works: Iterator[Work]) -> Iterator[InFlightBatch]:
        """Called by the pipeline, in the middle of a step."""
        while True:
            self.clock.lap("distribution")
            work = next(works, None)
            self.clock.lap("data")
            if work is None:
                return
            prepared = self.trainer.prepare(work)
            ids_U, places = self.table.asked(*prepared.batch.item_ids)
            batch = InFlightBatch(prepared, lookup.features(ids_U), places, self._random())
            self.clock.lap("batch")
            yield batch

    def _rest(self, batch: InFlightBatch, embeddings: Any) -> torch.Tensor:
        """The step from the lookup to the loss."""
        self.clock.lap("distribution")
        self._random(batch.random)
        self.table.set_prefetched(embeddings[lookup.FEATURE].values(), batch.places)
        loss, self.forward_result = self.trainer.forward(batch.prepared)
        self.clock.lap("forward")
        loss.register_hook(self._backward_begins)
        return loss

    def _backward_begins(self, _: torch.Tensor) -> None:
        self.clock.lap("distribution")

    def finish(self) -> None:
        self.clock.lap("backward")
        assert self.forward_result is not None
        self.result = self.trainer.finish(self.forward_result, self.clock)
        self.forward_result = None

    def _random(self, states: tuple[torch.Tensor, ...] = ()) -> tuple[torch.Tensor, ...]:
        """The states of the generators of host and device; sets them first, if they are given."""
        generators: list[Any] = [torch]
        if self.trainer.device.type != "cpu":
            generators.append(torch.get_device_module(self.trainer.device))
        for generator, state in zip(generators, states):
            generator.set_rng_state(state)
        return tuple(generator.get_rng_state() for generator in generators)


class _Step(nn.Module):
    """What a pipeline traces."""

    def __init__(self, collection: nn.Module, rest: Callable[[InFlightBatch, Any], torch.Tensor]) -> None:
        super().__init__()
        self.collection = collection
        self.rest = _Rest(rest)

    def forward(self, batch: InFlightBatch) -> tuple[torch.Tensor, InFlightBatch]:
        return self.rest(batch, self.collection(batch.ids)), batch


class _Rest(nn.Module):
    """A leaf of the trace: it has no sharded module, so nothing inside is looked at."""

    def __init__(self, call: Callable[[InFlightBatch, Any], torch.Tensor]) -> None:
        super().__init__()
        self.call = call

    def forward(self, batch: InFlightBatch, embeddings: Any) -> torch.Tensor:
        return self.call(batch, embeddings)


class _Finish:
    """Stands for the optimizer."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    def zero_grad(self) -> None:
        self.pipeline.trainer.pieces.zero_grad()

    def step(self) -> None:
        self.pipeline.finish()


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _tensors(item)
    elif dataclasses.is_dataclass(value):
        for item in dataclasses.fields(value):
            yield from _tensors(getattr(value, item.name))
