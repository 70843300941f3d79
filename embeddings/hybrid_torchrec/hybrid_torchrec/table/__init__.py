"""Hash tables in one device's memory: one, and several that share launches."""

from hybrid_torchrec.row_batch import RowBatch
from hybrid_torchrec.table.group import TableGroup
from hybrid_torchrec.table.hash_table import HashTable
from hybrid_torchrec.table_config import TableConfig

__all__ = ["HashTable", "RowBatch", "TableConfig", "TableGroup"]
