"""Hash collections, where code of the documents' stack imports them from."""

from hybrid_torchrec.modules import HashEmbeddingBagCollection, HashEmbeddingBagConfig

__all__ = ["HashEmbeddingBagCollection", "HashEmbeddingBagConfig"]
