"""HybridTrainPipelineSparseDist, where code of the documents' stack imports it from."""

from hybrid_torchrec.distributed.pipeline import HybridTrainPipelineSparseDist

__all__ = ["HybridTrainPipelineSparseDist"]
