"""One hash table in one device's memory."""

from hybrid_torchrec.table.config import TableConfig
from hybrid_torchrec.table.hash_table import HashTable
from hybrid_torchrec.table.rows import RowBatch

__all__ = ["HashTable", "RowBatch", "TableConfig"]
