"""Which of a release's wheels a target machine takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

# PEP 600: the older names of manylinux_2_17, _2_12 and _2_5
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


def platforms(arch: str, glibc: str) -> Iterator[str]:
    """Platform tags of a Linux machine with this glibc, the best first."""
    yield f"linux_{arch}"
    minor = int(glibc.partition(".")[2])
    oldest = 5 if arch == "x86_64" else 17
    for version in range(minor, oldest - 1, -1):
        yield f"manylinux_2_{version}_{arch}"
        if version in _LEGACY and (arch == "x86_64" or version == 17):
            yield f"{_LEGACY[version]}_{arch}"


def ranking(python: str, arch: str, glibc: str) -> dict[Tag, int]:
    """Every tag that CPython `python` takes on such a machine, with its rank; 0 is best."""
    version = tuple(int(part) for part in python.split("."))
    interpreter = "cp" + "".join(python.split("."))
    names = list(platforms(arch, glibc))
    tags = [
        *cpython_tags(python_version=version, platforms=names),
        *compatible_tags(python_version=version, interpreter=interpreter, platforms=names),
    ]
    ranks: dict[Tag, int] = {}
    for tag in tags:
        ranks.setdefault(tag, len(ranks))
    return ranks


def best(filenames: Iterable[str], ranks: dict[Tag, int]) -> str | None:
    """The wheel that pip would take among `filenames`, or None when none fits; build numbers break ties."""
    fitting: list[tuple[int, tuple[int, str], str]] = []
    for filename in filenames:
        try:
            _, _, build, tags = parse_wheel_filename(filename)
        except InvalidWheelFilename:
            continue
        rank = min((ranks[tag] for tag in tags if tag in ranks), default=None)
        if rank is not None:
            number, letters = build or (-1, "")
            fitting.append((rank, (-number, letters), filename))
    return min(fitting)[2] if fitting else None
