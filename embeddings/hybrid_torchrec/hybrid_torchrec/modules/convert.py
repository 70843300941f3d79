"""From torchrec's collections to those of hash tables, in models that make their collections themselves."""

from __future__ import annotations

from torch import nn
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection

from hybrid_torchrec.modules.collection import FusedCollection
from hybrid_torchrec.modules.config import HashEmbeddingBagConfig, HashEmbeddingConfig
from hybrid_torchrec.modules.embedding import HashEmbeddingCollection
from hybrid_torchrec.modules.embeddingbag import HashEmbeddingBagCollection


def use_hash_tables(model: nn.Module) -> nn.Module:
    """Puts a hash collection in the place of each torchrec collection whose configs are HashEmbedding(Bag)Configs.

    Call it before sharding, on a model made on the meta device (elsewhere torchrec has allocated static tables first).
    Optimizers that were applied in backward are kept. Returns the model, or its replacement if it is a collection.
    Collections of static tables stay as they are beside those of hash tables.

    Raises ValueError for a model without a hash table, which would train on as it is, for a collection with static and
    hash configs, which need collections of their own, and for configs of cached tables, which are made by
    torchrec_embcache's collections.
    """
    converted = _converted(model)
    if converted is not None:
        return converted
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            converted = _converted(child)
            if converted is not None:
                setattr(parent, name, converted)
    if not any(isinstance(module, FusedCollection) for module in model.modules()):
        raise ValueError(_without_hash_tables(model))
    return model


def _without_hash_tables(model: nn.Module) -> str:
    static: list[str] = []
    for module in model.modules():
        if isinstance(module, EmbeddingBagCollection):
            static += [config.name for config in module.embedding_bag_configs()]
        elif isinstance(module, EmbeddingCollection):
            static += [config.name for config in module.embedding_configs()]
    if not static:
        return f"use_hash_tables: {type(model).__name__} has no EmbeddingBagCollection or EmbeddingCollection"
    return (
        f"use_hash_tables: {type(model).__name__} has only static tables ({', '.join(static)}), whose configs are "
        "torchrec's; give those that are to take any id a HashEmbeddingBagConfig (HashEmbeddingConfig), or make a "
        "HashEmbeddingBagCollection (HashEmbeddingCollection) of them, which takes torchrec's configs too"
    )


def _converted(module: nn.Module) -> nn.Module | None:
    if type(module) is EmbeddingBagCollection:
        bag_configs = module.embedding_bag_configs()
        if not _all_hash(bag_configs, HashEmbeddingBagConfig):
            return None
        bags = HashEmbeddingBagCollection(bag_configs, module.is_weighted(), module.device)
        _keep_optimizers(module.embedding_bags, bags.embedding_bags)
        return bags
    if type(module) is EmbeddingCollection:
        configs = module.embedding_configs()
        if not _all_hash(configs, HashEmbeddingConfig):
            return None
        rows = HashEmbeddingCollection(configs, module.device, module.need_indices())
        _keep_optimizers(module.embeddings, rows.embeddings)
        return rows
    return None


def _all_hash(configs: list[object], kind: type) -> bool:
    cached = [getattr(config, "name", "?") for config in configs if hasattr(config, "cache_rows")]
    if cached:
        raise ValueError(
            f"tables {', '.join(cached)} have configs of cached tables: make the collection an "
            f"EmbCache{kind.__name__.removeprefix('Hash').removesuffix('Config')}Collection of torchrec_embcache"
        )
    of_kind = [isinstance(config, kind) for config in configs]
    if any(of_kind) and not all(of_kind):
        static = [getattr(config, "name", "?") for config, is_hash in zip(configs, of_kind) if not is_hash]
        raise ValueError(
            f"a collection has hash tables and static ones ({', '.join(static)}); give them collections of their own"
        )
    return bool(of_kind) and of_kind[0]


def _keep_optimizers(static: nn.ModuleDict, tables: nn.ModuleDict) -> None:
    for name, table in static.items():
        for attribute in ("_in_backward_optimizers", "_optimizer_classes", "_optimizer_kwargs"):
            if hasattr(table.weight, attribute):
                setattr(tables[name].weight, attribute, getattr(table.weight, attribute))
