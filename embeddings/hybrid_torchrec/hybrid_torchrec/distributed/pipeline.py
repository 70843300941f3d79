"""Training pipeline that distributes the ids of the next batches while the current one trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.profiler import record_function
from torchrec.distributed.train_pipeline import TrainPipelineSparseDist
from torchrec.distributed.train_pipeline.utils import PipelinedForward, TrainPipelineContext, _wait_for_batch
from torchrec.streamable import Pipelineable

In = TypeVar("In", bound=Pipelineable)
Out = TypeVar("Out")


class HybridTrainPipelineSparseDist(TrainPipelineSparseDist[In, Out]):
    """TrainPipelineSparseDist with `pipe_n_batch` batches in flight instead of two.

    While a batch trains, the next ones are copied to the device, and their ids are deduplicated and on their way to the
    ranks that own them. Rows are looked up, inserted and updated in the order of the batches, so results are those of a
    plain loop: `for batch in loader: optimizer.zero_grad(); loss, out = model(batch); loss.backward();
    optimizer.step()`.

    Hash tables and torchrec's static tables may stand in one model. The model must be traceable and its sharded modules
    must take their input straight from the batch, as for TrainPipelineSparseDist; others are run unpipelined.

    Args:
        model: sharded model; returns (loss (any shape), output).
        optimizer: of the dense parameters (or all; fused optimizers do their step in backward).
        device: of the model.
        pipe_n_batch: batches in flight, with the one that trains; 1 overlaps nothing.
        execute_all_batches: train what is in flight when the loader ends.
        return_loss: progress returns (output, loss (summed, without a graph)) in place of the output alone.
        read_late: of three batches in flight or more, take the last when the step has been launched, not before its
            forward: where the host runs ahead of a device, what makes a batch then costs the device no time. The
            batch's ids set out a step later.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        pipe_n_batch: int = 3,
        execute_all_batches: bool = True,
        custom_model_fwd: Callable[[In | None], tuple[Tensor, Out]] | None = None,
        return_loss: bool = False,
        read_late: bool = False,
        **kwargs: Any,
    ) -> None:
        if pipe_n_batch < 1:
            raise ValueError(f"pipe_n_batch={pipe_n_batch}: the batch that trains is in flight too, so at least 1")
        super().__init__(
            model,
            optimizer,
            device,
            execute_all_batches=execute_all_batches,
            custom_model_fwd=custom_model_fwd,
            **kwargs,
        )
        self._depth = pipe_n_batch
        # Two at least before a forward: the ids of the next batch set out there. Without execute_all_batches the end
        # of the loader ends the step that meets it, which must not have begun then.
        self._early = min(2, pipe_n_batch) if read_late and execute_all_batches else pipe_n_batch
        self._return_loss = return_loss
        self._started: set[int | None] = set()  # indices of contexts whose ids are on their way
        self._waited: set[int | None] = set()

    def progress(self, dataloader_iter: Iterator[In]) -> Out | tuple[Out, Tensor]:
        """One step; returns the model's output, with return_loss (output, loss).

        Raises StopIteration when all batches have been trained.
        """
        if not self._model_attached:
            self.attach(self._model)
        self.fill_pipeline(dataloader_iter)
        if not self.batches:
            raise StopIteration
        self._set_module_context(self.contexts[0])
        if self._model.training:
            with record_function("## zero_grad ##"):
                self._optimizer.zero_grad()
        with record_function("## wait_for_batch ##"):
            _wait_for_batch(self.batches[0], self._data_dist_stream)
        for batch, context in zip(self.batches, self.contexts):
            self._start(batch, context)
        with record_function("## forward ##"):
            losses, output = self._model_fwd(self.batches[0])
            loss = torch.sum(losses, dim=0)
        for context in self.contexts:
            self._send_ids(context)
        if self._model.training:
            with record_function("## backward ##"):
                loss.backward()
            with record_function("## optimizer ##"):
                self._optimizer.step()
        while len(self.batches) < self._depth and self.enqueue_batch(dataloader_iter):
            self._start(self.batches[-1], self.contexts[-1])
        self.dequeue_batch()
        return (output, loss.detach()) if self._return_loss else output

    def fill_pipeline(self, dataloader_iter: Iterator[In]) -> None:
        while len(self.batches) < self._early and self.enqueue_batch(dataloader_iter):
            pass
        if not self.batches:
            return
        if not self._pipelined_modules:
            self._pipeline_model(self.batches[0], self.contexts[0], PipelinedForward)
        self._start(self.batches[0], self.contexts[0])
        self._send_ids(self.contexts[0])

    def _pipeline_model(
        self,
        batch: In | None,
        context: TrainPipelineContext,
        pipelined_forward: type[PipelinedForward] = PipelinedForward,
    ) -> None:
        """Starts the input distribution of `batch`, again if it was on its way when the model was detached."""
        super()._pipeline_model(batch, context, pipelined_forward)
        self._started.add(context.index)
        self._waited.discard(context.index)

    def dequeue_batch(self) -> None:
        index = self.contexts[0].index
        self._started.discard(index)
        self._waited.discard(index)
        super().dequeue_batch()

    def _start(self, batch: In | None, context: TrainPipelineContext) -> None:
        """First half of the input distribution: how many ids go to each rank."""
        if context.index not in self._started:
            self.start_sparse_data_dist(batch, context)
            self._started.add(context.index)

    def _send_ids(self, context: TrainPipelineContext) -> None:
        """Second half: the ids themselves."""
        if context.index in self._started and context.index not in self._waited:
            self.wait_sparse_data_dist(context)
            self._waited.add(context.index)
