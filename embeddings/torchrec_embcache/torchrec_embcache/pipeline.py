"""Training pipeline that fetches the rows of the next batches while the current one trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from hybrid_torchrec.distributed import HybridTrainPipelineSparseDist
from torch import Tensor, nn
from torchrec.distributed.train_pipeline.utils import TrainPipelineContext
from torchrec.distributed.types import NoWait
from torchrec.streamable import Pipelineable

from torchrec_embcache.distributed import ShardedCached

In = TypeVar("In", bound=Pipelineable)
Out = TypeVar("Out")


class EmbCacheTrainPipelineSparseDist(HybridTrainPipelineSparseDist[In, Out]):
    """HybridTrainPipelineSparseDist that also prefetches rows, ``look_ahead`` batches ahead.

    While batch i trains, the ids of batches i + 1 .. i + look_ahead are exchanged and deduplicated, and their rows come
    to host memory. Results are those of a plain loop, bit by bit.

    Args:
        model: sharded with get_default_embcache_sharders(); hash tables and static tables may stand in it too.
        optimizer: of the dense parameters.
        device: of the model.
        look_ahead: batches; 0 fetches every batch when it trains.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        look_ahead: int = 3,
        execute_all_batches: bool = True,
        custom_model_fwd: Callable[[In | None], tuple[Tensor, Out]] | None = None,
        **kwargs: Any,
    ) -> None:
        if look_ahead < 0:
            raise ValueError(f"look_ahead={look_ahead}: a number of batches, at least 0")
        super().__init__(
            model,
            optimizer,
            device,
            pipe_n_batch=look_ahead + 1,
            execute_all_batches=execute_all_batches,
            custom_model_fwd=custom_model_fwd,
            **kwargs,
        )
        self._prefetched: set[int | None] = set()

    def dequeue_batch(self) -> None:
        self._prefetched.discard(self.contexts[0].index)
        super().dequeue_batch()

    def _send_ids(self, context: TrainPipelineContext) -> None:
        super()._send_ids(context)
        if context.index in self._waited and context.index not in self._prefetched:
            self._prefetched.add(context.index)
            self._prefetch(context)

    def _prefetch(self, context: TrainPipelineContext) -> None:
        """The ids are awaited here, and given to the forward pass as if they had just come."""
        for module in self._pipelined_modules:
            if not isinstance(module, ShardedCached):
                continue
            name = module.forward.name
            data = context.input_dist_tensors_requests[name].wait()
            context.input_dist_tensors_requests[name] = NoWait(data)
            module.prefetch(data)
