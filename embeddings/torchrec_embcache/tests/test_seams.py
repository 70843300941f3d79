"""CachedTable uses what HashTable gives to tables that keep rows elsewhere, and nothing that is private to it."""

import ast
import inspect

import torchrec_embcache.cache
from hybrid_torchrec import HashTable
from torchrec_embcache.cache import CachedTable


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_no_private_method_is_replaced() -> None:
    assert {name for name in vars(CachedTable) if private(name) and hasattr(HashTable, name)} == set()


def test_no_private_name_of_the_table_is_used() -> None:
    tree = ast.parse(inspect.getsource(torchrec_embcache.cache))
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and private(node.attr)]
    own = {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
    own |= {name for name in vars(CachedTable) if private(name)}
    assert {node.attr for node in attributes} - own == set()
