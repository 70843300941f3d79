"""A base made of the distribution's packages, and what of the host's network its making is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from grstack import host
from grstack.engines import keyrings
from grstack.engines.apt_sources import POCKETS, Source, sources_for, text_of
from grstack.errors import EngineError
from grstack.network import Settings
from grstack.run import Runner

KEYRINGS = {  # what the packages are signed with; another distribution than the host's own may lack it
    "debian": (Path("/usr/share/keyrings/debian-archive-keyring.gpg"), "debian-archive-keyring"),
    "ubuntu": (Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg"), "ubuntu-keyring"),
}


def ensure_tools(release: str, runner: Runner, log: Path, settings: Settings) -> None:
    """mmdebstrap and the keyring of `release` (debian/bookworm)."""
    host.ensure_commands({"mmdebstrap": "mmdebstrap"}, runner, log, settings.connection())
    distribution = release.partition("/")[0]
    keyring, package = KEYRINGS[distribution]
    if keyring.exists() or (distribution in keyrings.FINGERPRINTS and not host.apt_knows([package])):
        return  # there, or fetched from the archive itself
    host.ensure_packages([package], runner, log, settings.connection())


def ubuntu_archive(suite: str, work: Path, runner: Runner, settings: Settings) -> Source:
    """Where Ubuntu has its packages and what they are signed with, for a host of another distribution."""
    uri = settings.ubuntu_archive
    if not uri:
        raise EngineError(
            f"Ubuntu's packages of {suite} are needed, and this host's apt has none",
            where="ubuntu_archive in ~/.config/grstack/network.yaml, or GRSTACK_UBUNTU_ARCHIVE",
            next_command="GRSTACK_UBUNTU_ARCHIVE=URL, an archive of Ubuntu or a mirror of it; or a registry with the "
            "base: GRSTACK_REGISTRY=HOST/PATH",
        )
    suites = tuple(f"{suite}{pocket}" for pocket in POCKETS)
    keyring, package = KEYRINGS["ubuntu"]
    archive = Source(uris=(uri,), suites=suites, components=("main", "universe"), signed_by=str(keyring))
    if keyring.exists():
        return archive
    runner.keep_private("apt mirror", [urlsplit(uri).netloc])
    place, log = work / "keyring", work / "keyring.log"
    key = keyrings.fetched("ubuntu", package, archive, place, runner, log, settings)
    return replace(archive, signed_by=key)


def make_root(script: Path, release: str, tar: Path, runner: Runner, log: Path, settings: Settings) -> None:
    """A root file system of `release` as a tar file, by docker/base/bootstrap.sh."""
    distribution, _, suite = release.partition("/")
    secrets = host_secrets(tar.parent, runner, settings, distribution, suite)
    env = {f"GRSTACK_{name.upper()}": str(path) for name, path in secrets.items()}
    runner.stream([str(script), release, str(tar)], log=log, env=settings.connection() | env)


def host_secrets(
    folder: Path, runner: Runner, settings: Settings, distribution: str = "", suite: str = ""
) -> dict[str, Path]:
    """The host's package mirrors and CA bundle, for build steps only: they never land in a layer or a log.

    Without a distribution the host's own release is meant; the build step looks whether it is the image's too.
    """
    said = host.release()
    sources = sources_for(distribution or said.get("ID", ""), suite or said.get("VERSION_CODENAME", ""))
    if distribution == "ubuntu" and not sources:  # mmdebstrap's own default is main alone, which has no Ninja
        sources = [ubuntu_archive(suite, folder, runner, settings)]
    found: dict[str, Path] = {}
    if sources:
        runner.keep_private("apt mirror", (urlsplit(uri).netloc for source in sources for uri in source.uris))
        found["apt_sources"] = folder / "host.sources"
        found["apt_sources"].write_text(text_of(sources))
    if settings.ca_bundle:
        found["ca"] = settings.ca_bundle
    return found
