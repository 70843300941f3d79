"""benchmarks/measured.json: for each result the content keys of the sources that were measured."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from grstack import keys
from grstack.ask import Answer, ask
from grstack.errors import StepError, UsageError
from grstack.files import sha256_of, write_atomically

FILE = "benchmarks/measured.json"
DIGITS = 12


@dataclass(frozen=True)
class Measured:
    """sources: the content key of each, of a pinned package the version. commit: what was checked out. seconds: how
    long it took, where known. results: the digest of each file that was written."""

    commit: str
    date: str
    sources: dict[str, str]
    seconds: int | None = None
    results: dict[str, str] = field(default_factory=dict)


def read(root: Path) -> dict[str, Measured]:
    file = root / FILE
    if not file.exists():
        return {}
    return {name: Measured(**row) for name, row in json.loads(file.read_text(encoding="utf-8")).items()}


def add(root: Path, name: str, measured: Measured, files: Sequence[Path]) -> None:
    """files: those of the result, as they were written."""
    rows = read(root) | {name: replace(measured, results=digests_of(files))}
    plain = {key: {k: v for k, v in asdict(row).items() if v is not None} for key, row in sorted(rows.items())}
    write_atomically(root / FILE, json.dumps(plain, indent=1) + "\n")


def keys_of(root: Path, sources: Sequence[str]) -> dict[str, str]:
    """As keys of a build: tests, pages and caches do not count, unless they are named themselves."""
    return {source: pinned(root, source) or keys.of_tree(root / source)[:DIGITS] for source in sources}


def pinned(root: Path, source: str) -> str:
    """Of a source `locks/TARGET:PACKAGE` the version, or the versions for several Pythons; of others nothing."""
    target, _, name = source.partition(":")
    locks = [json.loads(file.read_text(encoding="utf-8")) for file in root.glob(f"{target}-py*.json") if name]
    packages = [package for lock in locks for package in lock["packages"] if package["variant"] == "plain"]
    return "/".join(sorted({package["version"] for package in packages if package["name"] == name}))


def digests_of(files: Sequence[Path]) -> dict[str, str]:
    return {file.name: sha256_of(file)[:DIGITS] for file in files}


def combined(sources: dict[str, str]) -> str:
    """One key of several."""
    return keys.combine(sources.items())[:DIGITS]


@contextmanager
def tree_of(root: Path, commit: str) -> Iterator[Path]:
    """The files of a commit, in a folder that goes away."""
    with tempfile.TemporaryDirectory(prefix="grstack-evidence-") as folder:
        archive = f"{folder}/tree.tar"
        _known(ask(["git", "-C", str(root), "archive", f"--output={archive}", commit]), commit)
        tree = Path(folder) / "tree"
        tree.mkdir()
        if (done := ask(["tar", "-xf", archive, "-C", str(tree)])).code:
            raise StepError(
                f"the tree of {commit} cannot be unpacked: {done.errors.strip()}", next_command="df -h $TMPDIR /tmp"
            )
        yield tree


def commit_and_day(root: Path, commit: str = "HEAD") -> tuple[str, str]:
    """Its short name and its date."""
    done = _known(ask(["git", "-C", str(root), "log", "-1", "--format=%h %cs", commit]), commit)
    name, day = done.output.split()
    return name, day


def is_older(root: Path, result: Sequence[Path], commit: str) -> bool:
    """Whether the files of the result were there, as they are now, before `commit`."""
    files = [str(file) for file in result if file.suffix != ".md"] or [str(file) for file in result]
    if not files or ask(["git", "-C", str(root), "ls-files", "--others", "--", *files]).output:
        return False
    return ask(["git", "-C", str(root), "diff", "--quiet", f"{commit}^", "--", *files]).code == 0


def _known(done: Answer, commit: str) -> Answer:
    if done.code:
        raise UsageError(f"git does not know the commit '{commit}'", next_command="git log --oneline")
    return done
