"""No dead reference: what documents, docstrings and comments point to exists."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = {".py", ".md", ".h", ".cpp", ".inl", ".cc", ".in", ".txt", ".cmake", ".sh", ".yaml", ".toml", ".patch", ""}
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
SPAN = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"[\w.*<>{},-]+(?:/[\w.*<>{},-]+)+/?")
NAMED = re.compile(r"(?<![\w./$~-])(?:{tops})/[\w./-]*\w\.(?:py|md|json|yaml|h|cpp|inl|sh|csv|html|toml|patch)\b")
SPECIFICATION = re.compile(
    r"\bspec/[\w-]+\.md|\(spec [A-G]\.\d|(?<!docs/)(?<!\w)(?:operators|ascend-c|targets)\.md [§\d]"
)
SECTION = re.compile(r"\((?:ascend-c |spec )?[A-G]\.\d+(?:\.\d+)?[),]|\bof [A-G]\.\d+\b")
THIS = Path(__file__).resolve()


@cache
def tracked() -> tuple[Path, ...]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return tuple(ROOT / name for name in names if name and (ROOT / name).is_file())


@cache
def tops() -> frozenset[str]:
    """The folders at the root: a path that begins with one of them is meant to be one of the repository."""
    return frozenset(path.relative_to(ROOT).parts[0] for path in tracked() if path.parent != ROOT)


def pages() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".md"]


def where(path: Path, text: str, at: int) -> str:
    return f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, at) + 1}"


def patterns(name: str) -> Iterator[str]:
    """Names without braces and placeholders: `a/{b,c}.<x>` gives a/b.* and a/c.*, `a/NAME/b_NAME` gives a/*/b_*."""
    if group := re.search(r"\{([^{}]*)\}", name):
        for choice in group[1].split(","):
            yield from patterns(name[: group.start()] + choice + name[group.end() :])
    else:
        yield re.sub(r"<[^<>]*>|(?<=/)[A-Z]+(?=/)|NAME", "*", name)


def exists(name: str, folders: list[Path]) -> bool:
    return all(any(folder.exists() and any(folder.glob(p.rstrip("/"))) for folder in folders) for p in patterns(name))


def above(path: Path) -> list[Path]:
    """The folders that a path in this file may begin at: its own, and those around it up to the root."""
    return [folder for folder in path.parents if folder == ROOT or ROOT in folder.parents]


def slugs(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ +(.*?) *$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", h).lower()).replace(" ", "-") for h in headings}


def dead_links(page: Path, text: str) -> Iterator[str]:
    for match in LINK.finditer(FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)):
        target, _, anchor = match[1].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = page.parent / target if target else page
        if not file.exists():
            yield f"links to {match[1]}, which is not there"
        elif anchor and file.exists() and file.suffix == ".md" and anchor not in slugs(file):
            yield f"links to {match[1]}: {file.name} has no such heading"


def dead_paths(page: Path, text: str) -> Iterator[str]:
    for match in SPAN.finditer(FENCE.sub("", text)):
        for word in match[1].split():
            name = re.sub(r"(::.*|:\d+)$", "", word)
            if not PATH.fullmatch(name) or not meant(name, page):
                continue
            if not exists(name, above(page)):
                yield f"names {name}, which is not there"


def meant(name: str, page: Path) -> bool:
    """Whether a word in a code span stands for a file of the repository, and not of an image or of another project."""
    first = name.split("/")[0]
    if first in (".", ".."):
        return False
    return first in tops() or (page.parent != ROOT and (page.parent / first).is_dir())


def docstrings(path: Path, text: str) -> str:
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return "\n".join(ast.get_docstring(n) or "" for n in ast.walk(ast.parse(text)) if isinstance(n, nodes))


def comments(path: Path, text: str) -> str:
    return "\n".join(re.findall(r"//(.*)$", text, re.MULTILINE))


def dead_names(path: Path, text: str) -> Iterator[str]:
    pattern = NAMED.pattern.format(tops="|".join(sorted(tops())))
    said = docstrings(path, text) if path.suffix == ".py" else comments(path, text)
    for name in re.findall(pattern, said):
        if not exists(name, above(path)):
            yield f"names {name}, which is not there"


@pytest.mark.parametrize("find", [dead_links, dead_paths])
def test_pages_point_to_what_exists(find: object) -> None:
    assert len(pages()) > 20
    assert callable(find)
    assert [f"{p.relative_to(ROOT)} {fault}" for p in pages() for fault in find(p, p.read_text(encoding="utf-8"))] == []


def test_docstrings_and_comments_name_files_that_exist() -> None:
    sources = [path for path in tracked() if path.suffix in (".py", ".h", ".cpp", ".inl")]
    assert len(sources) > 500
    faults = [
        f"{path.relative_to(ROOT)} {fault}"
        for path in sources
        for fault in dead_names(path, path.read_text(encoding="utf-8"))
    ]
    assert faults == []


def test_nothing_cites_a_specification_that_is_not_here() -> None:
    """Sources say what the reader needs, or point into docs/; no `spec/` file, no bare section such as "A dot 7"."""
    faults = []
    for path in tracked():
        if path == THIS or path.suffix not in TEXT or path.name == "LICENSE" or "locks" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        for pattern in (SPECIFICATION, SECTION):
            faults += [f"{where(path, text, match.start())}: {match[0]}" for match in pattern.finditer(text)]
    assert faults == []


def test_every_page_is_listed_in_an_index() -> None:
    """docs/index.md lists the pages of docs/, docs/develop/README.md those for contributors."""
    docs = ROOT / "docs"
    for index, folder in ((docs / "index.md", docs), (docs / "develop/README.md", docs / "develop")):
        text = index.read_text(encoding="utf-8")
        files = [path.name for path in folder.glob("*.md") if path != index]
        assert [name for name in files if f"({name})" not in text] == []


def test_no_command_for_an_image_hides_the_packages_that_it_names_itself() -> None:
    """CANN's compilers find their Python packages by PYTHONPATH. In double quotes this shell's would be taken."""
    lines = [
        (page, line) for page in pages() for line in page.read_text(encoding="utf-8").splitlines() if "inv run " in line
    ]
    setting = [(page, line) for page, line in lines if "PYTHONPATH=" in line]
    assert len(setting) >= 4
    kept = re.compile(r"inv run [^'\"]*'[^']*\bPYTHONPATH=[^\s']+:\$PYTHONPATH ")
    assert not [f"{page.relative_to(ROOT)}: {line}" for page, line in setting if not kept.search(line)]


def test_no_line_to_type_asks_a_registry_for_an_image_of_ours() -> None:
    """Anybody may own the namespace grstack in a public one, and an image that is not here would come from it."""
    lines = 0
    for page in pages():
        text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
        for found in re.finditer(r"docker run [^`\n]*?\bgrstack/\w+(?:-\w+)?:", text):
            lines += 1
            assert "--pull=never" in found[0], where(page, text, found.start())
    assert lines > 20
