"""Data sets by name.

To add one that is fetched: a module here with its rows (or with `load`), its line in DATASETS, its entry under
`datasets` in versions.yaml (file, hash, licence), its name in the table of docs/training.md. One that is made: its Rule,
its line in DATASETS, its name in PLANTED of gr_model/config/advice.py. tests/test_registries.py walks these places.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from gr_model.common import errors
from gr_model.config import DataConfig
from gr_model.config import advice as config_advice
from gr_model.config.data import OWN
from gr_model.data import amazon, kuairand, ml_1m, ml_20m, ml_100k, planted, synthetic
from gr_model.data.bad_rows import BadRows
from gr_model.data.interactions import DataError, History, Interactions, lengths_of, select
from gr_model.data.source import Source
from gr_model.config.synthetic import SyntheticConfig

DATASETS: dict[str, Source | type[synthetic.Rule] | Callable[[Path, BadRows], Interactions]] = {
    "ml-100k": ml_100k.load,
    "ml-1m": ml_1m.SOURCE,
    "ml-20m": ml_20m.SOURCE,
    "amzn-books": amazon.ratings("amzn-books", "ratings_Books.csv"),
    "amzn-beauty": amazon.ratings("amzn-beauty", "ratings_Beauty.csv"),
    "amzn-books-reviews": amazon.reviews("amzn-books-reviews", "reviews_Books_5.json.gz"),
    "amzn-beauty-reviews": amazon.reviews("amzn-beauty-reviews", "reviews_Beauty_5.json.gz"),
    "kuairand-pure": kuairand.source("pure"),
    "kuairand-1k": kuairand.source("1k"),
    "kuairand-27k": kuairand.source("27k", parts=2),
    "planted-sequences": synthetic.Planted,
    "planted-actions": synthetic.Signals,
}

__all__ = ["DATASETS", "DataError", "History", "Interactions", "check_name", "lengths_of", "load", "select"]


def check_name(name: str, own: DataConfig | None = None) -> None:
    """DataError for a data set that there is not. `own` says where one's own file is."""
    if name == OWN:
        if own is None or not own.path:
            raise DataError(
                "dataset=own is a file of your own, and none is named\n"
                "  next: the same command with data.path=FILE (.csv, .tsv, .parquet, .jsonl)"
            )
    elif name not in DATASETS:
        raise DataError(f"unknown data set {name!r}{config_advice.hint(name, DATASETS)}; valid: {', '.join(DATASETS)}")


def load(
    name: str,
    folder: Path,
    bad_rows: float = 1e-3,
    say: Callable[[str], None] = print,
    made: SyntheticConfig | None = None,
    own: DataConfig | None = None,
) -> Interactions:
    """Data set `name` from `folder/name`; for "own" the file that `own` names, with shards in `folder/own`.

    A large one is read from its shards, `folder/name/shards` (or $GRSTACK_SHARDS/name), which the first call makes.
    `bad_rows` is the share of rows that do not fit and may be left out. `made` is the size of one that is made.
    """
    check_name(name, own)
    if name == OWN and own is not None:
        return _load_own(own, folder / OWN, bad_rows, say)
    source = DATASETS[name]
    if isinstance(source, Source):
        return _load_shards(source, folder / name, bad_rows, say)
    if isinstance(source, type):
        return planted.load(source, made or SyntheticConfig(), lambda shards: _place(folder / name, shards), say)
    bad = BadRows(bad_rows)
    interactions = source(folder / name, bad)
    bad.tell(say)
    return interactions


def _place(folder: Path, shards: str = "shards") -> Path:
    elsewhere = os.environ.get("GRSTACK_SHARDS")
    if not elsewhere:
        return folder / shards
    return Path(elsewhere) / (folder.name if shards == "shards" else f"{folder.name}-{shards}")


def _load_own(own: DataConfig, folder: Path, bad_rows: float, say: Callable[[str], None]) -> Interactions:
    """Shards serve without the file that they were made from, as those of any data set."""
    try:
        from gr_model.data import own as own_data
        from gr_model.data import shards
    except ImportError as error:
        raise DataError(f"{own.path}: reading it needs pyarrow ({error}); pip install pyarrow") from None
    place = _place(folder / own_data.name_of(own))
    manifest = shards.read_manifest(place)
    if manifest is not None and not Path(own.path).exists():
        return shards.open_shards(place, manifest)
    where, files = own_data.place(own)
    return _load_shards(own_data.source(own, files), where, bad_rows, say, place)


def _load_shards(
    source: Source, folder: Path, bad_rows: float, say: Callable[[str], None], place: Path | None = None
) -> Interactions:
    # PyArrow is loaded with the first data set that is large enough to need it.
    from gr_model.data import build, fingerprint, shards

    place = place or _place(folder)
    manifest = shards.read_manifest(place)
    there = all((folder / file).exists() for file in source.files)
    # Shards serve without the files that they were made from; with other files they are made anew.
    if manifest is None or (there and not fingerprint.same(manifest["files"], source, folder, say)):
        try:
            build.build(source, folder, place, BadRows(bad_rows), say)
        except OSError as error:
            if error.errno not in errors.REFUSED:
                raise
            raise DataError(f"{place} cannot be written ({error.strerror}); set GRSTACK_SHARDS=FOLDER") from None
        manifest = shards.read_manifest(place)
        assert manifest is not None
    return shards.open_shards(place, manifest)
