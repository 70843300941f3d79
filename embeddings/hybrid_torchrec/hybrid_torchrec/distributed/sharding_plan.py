"""get_default_hybrid_sharders, where code of the documents' stack imports it from."""

from hybrid_torchrec.distributed import get_default_hybrid_sharders

__all__ = ["get_default_hybrid_sharders"]
