"""A public data set has a source, a reader, a test and a row in a document: the order of docs/develop/data-set.md."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from grstack import spec

ROOT = Path(__file__).resolve().parents[2]
READERS = ROOT / "gr_model/data/__init__.py"
MADE = "planted-"  # made, not fetched


def readers() -> dict[str, str]:
    """The reader of each name in DATASETS, as it is written there; the module wants packages that are not here."""
    for node in ast.parse(READERS.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "DATASETS":
            assert isinstance(node.value, ast.Dict)
            pairs = zip(node.value.keys, node.value.values, strict=True)
            return {ast.literal_eval(key): ast.unparse(value).partition("(")[0] for key, value in pairs if key}
    raise AssertionError(f"{READERS} assigns no DATASETS")


def fetched() -> set[str]:
    return set(spec.load(ROOT / "versions.yaml").datasets)


def test_what_is_fetched_is_what_can_be_read() -> None:
    names = {name for name in readers() if not name.startswith(MADE)}
    assert len(names) > 5
    assert names == fetched()


def test_every_reader_has_a_test() -> None:
    """Names that one function reads share its test."""
    names = defaultdict(list)
    for name, reader in readers().items():
        names[reader].append(name)
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "gr_model/tests").rglob("test_*.py"))
    assert len(names) > 3
    assert [reader for reader, all_names in names.items() if not any(f'"{n}"' in text for n in all_names)] == []


def test_every_data_set_is_in_the_document() -> None:
    page = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*) \|", page.partition("## Data")[2].partition("\n## ")[0], re.MULTILINE)
    assert sorted(fetched() - {name for row in rows for name in re.findall(r"`([^`]+)`", row)}) == []
