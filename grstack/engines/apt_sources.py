"""The host's own package sources, for build steps: another release of the same distribution has the same mirrors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from grstack import host

POCKETS = ("", "-updates", "-security")


@dataclass(frozen=True, kw_only=True)
class Source:
    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""
    trusted: bool = False

    @property
    def text(self) -> str:
        """One paragraph of a .sources file."""
        lines = ["Types: deb", f"URIs: {' '.join(self.uris)}", f"Suites: {' '.join(self.suites)}"]
        lines += [f"Components: {' '.join(self.components)}"]
        lines += [f"Signed-By: {self.signed_by}"] if self.signed_by else []
        lines += ["Trusted: yes"] if self.trusted else []
        return "\n".join(lines) + "\n"


def sources_for(
    distribution: str, suite: str, *, etc: Path = Path("/etc/apt"), os_release: Path = Path("/etc/os-release")
) -> list[Source]:
    """The host's mirrors of `distribution`, rewritten for `suite`; empty where the host is another distribution.

    Left out are sources of third parties: other suites than the release and its pockets, keys of other makers.
    """
    said = host.release(os_release)
    if said.get("ID") != distribution:
        return []
    own = said.get("VERSION_CODENAME", "")
    found = []
    for source in read(etc):
        pockets = [name.removeprefix(own) for name in source.suites if name.startswith(own)]
        suites = tuple(f"{suite}{pocket}" for pocket in pockets if pocket in POCKETS)
        theirs = source.signed_by and distribution not in Path(source.signed_by).name
        if suites and "main" in source.components and not theirs:
            found.append(replace(source, suites=suites))
    return found


def text_of(sources: list[Source]) -> str:
    return "\n".join(source.text for source in sources)


def read(etc: Path) -> list[Source]:
    """Every enabled binary source under /etc/apt, of both formats."""
    folder = etc / "sources.list.d"
    found: list[Source] = []
    for file in (etc / "sources.list", *sorted(folder.glob("*.list"))):
        if file.is_file():
            found += [source for line in file.read_text().splitlines() if (source := _one_line(line))]
    for file in sorted(folder.glob("*.sources")):
        for paragraph in file.read_text().split("\n\n"):
            source = _paragraph(paragraph)
            if source:
                found.append(source)
    return found


def _one_line(line: str) -> Source | None:
    """deb [signed-by=/usr/share/keyrings/x.gpg] URI SUITE COMPONENT..."""
    line = line.partition("#")[0].strip()
    if not line.startswith("deb "):
        return None
    rest, options = line[4:].strip(), ""
    if rest.startswith("["):
        options, _, rest = rest[1:].partition("]")
    words = rest.split()
    if len(words) < 3:
        return None
    given = dict(option.split("=", 1) for option in options.split() if "=" in option)
    return Source(
        uris=(words[0],),
        suites=(words[1],),
        components=tuple(words[2:]),
        signed_by=given.get("signed-by", ""),
        trusted=given.get("trusted") == "yes",
    )


def _paragraph(text: str) -> Source | None:
    fields: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line[0].isspace():  # the value goes on
            fields[last] = f"{fields.get(last, '')} {line.strip()}".strip()
            continue
        name, _, value = line.partition(":")
        last = name.strip().lower()
        fields[last] = value.strip()
    if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
        return None
    return Source(
        uris=tuple(fields.get("uris", "").split()),
        suites=tuple(fields.get("suites", "").split()),
        components=tuple(fields.get("components", "").split()),
        signed_by=fields.get("signed-by", ""),
        trusted=fields.get("trusted", "").lower() == "yes",
    )
