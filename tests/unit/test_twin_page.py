"""docs/twin.md promises nothing without a test: every line of its two tables names one that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from grstack.suites import IN_IMAGE, ON_HOST, WITH_ENGINE

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/twin.md").read_text(encoding="utf-8")
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
TABLES = ("## What is emulated", "## What is not emulated")


def rows(heading: str) -> list[str]:
    section = PAGE.split(f"{heading}\n", 1)[1].split("\n## ", 1)[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("heading", TABLES)
def test_every_line_names_a_test(heading: str) -> None:
    assert len(rows(heading)) > 5
    assert [row for row in rows(heading) if not TEST.search(row)] == []


@pytest.mark.parametrize(("file", "name"), sorted(set(TEST.findall(PAGE))))
def test_the_named_test_exists_and_is_run(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert any(file.startswith(f"{suite}/") for suite in (*IN_IMAGE, *ON_HOST, *WITH_ENGINE)), f"{file} is in no suite"


def test_files_that_it_links_exist() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
