"""Tables larger than device memory: rows in device memory over host memory over disk, fetched ahead of training."""

from torchrec_embcache.cache import CachedTable
from torchrec_embcache.config import CacheConfig
from torchrec_embcache.counters import Counters
from torchrec_embcache.errors import (
    CacheTooSmall,
    EmbCacheError,
    StoreCorrupt,
    StoreDiskFull,
    StoreError,
    StoreFull,
    StoreInputError,
    StoreIOError,
    StoreLocked,
    StoreReadOnly,
)
from torchrec_embcache.metrics import CacheMetrics
from torchrec_embcache.store.base import RowStore
from torchrec_embcache.store.disk import DiskStore
from torchrec_embcache.store.memory import MemoryStore

__all__ = [
    "CacheConfig",
    "CacheMetrics",
    "CacheTooSmall",
    "CachedTable",
    "Counters",
    "DiskStore",
    "EmbCacheError",
    "MemoryStore",
    "RowStore",
    "StoreCorrupt",
    "StoreDiskFull",
    "StoreError",
    "StoreFull",
    "StoreIOError",
    "StoreInputError",
    "StoreLocked",
    "StoreReadOnly",
]
