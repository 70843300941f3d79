"""What a distribution's packages are signed with, for a host of another one whose apt has no package of it.

It comes from the archive that is to be verified, so a key counts by its fingerprint alone, which stands here.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from grstack import host
from grstack.engines.apt_sources import Source
from grstack.errors import EngineError
from grstack.network import Settings
from grstack.run import Runner

# Ubuntu Archive Automatic Signing Key (2018), as Ubuntu publishes it
FINGERPRINTS = {"ubuntu": "F6ECB3762474EDA9D21B7022871920D1991BC93C"}


def fetched(
    distribution: str, package: str, archive: Source, work: Path, runner: Runner, log: Path, settings: Settings
) -> str:
    """The published key as text, from the archive's own package, in the form that Signed-By of a .sources file takes.

    Raises EngineError where the archive has no such key.
    """
    host.ensure_commands({"gpg": "gnupg", "dpkg-deb": "dpkg"}, runner, log, settings.connection())
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("lists/partial", "cache/archives/partial", "unpacked", "gpg"):
        (work / folder).mkdir(parents=True)
    (work / "gpg").chmod(0o700)
    (work / "archive.list").write_text(f"deb [trusted=yes] {archive.uris[0]} {archive.suites[0]} main\n")
    options = [f"-oDir::State::Lists={work}/lists", f"-oDir::Cache={work}/cache", "-oAPT::Sandbox::User=root"]
    options += [f"-oDir::Etc::SourceList={work}/archive.list", "-oDir::Etc::SourceParts=/dev/null"]
    if settings.ca_bundle:
        options.append(f"-oAcquire::https::CaInfo={settings.ca_bundle}")
    env = settings.connection()
    runner.stream(["apt-get", *options, "update", "-qq"], log=log, env=env)
    runner.stream(["apt-get", *options, "download", "-qq", package], log=log, env=env, cwd=work)
    (file,) = work.glob("*.deb")
    runner.stream(["dpkg-deb", "--extract", str(file), str(work / "unpacked")], log=log)
    return _published(distribution, sorted((work / "unpacked").rglob("*archive-keyring.gpg")), work / "gpg", runner)


def _published(distribution: str, files: list[Path], home: Path, runner: Runner) -> str:
    wanted = FINGERPRINTS[distribution]
    gpg = ["gpg", "--batch", "--quiet", "--no-options", f"--homedir={home}"]
    for file in files:
        runner.capture([*gpg, "--import", str(file)])
    if wanted not in _primary_keys(runner.capture([*gpg, "--with-colons", "--list-keys"])):
        raise EngineError(
            f"the archive's package of keys has no {wanted}, which {distribution}'s packages are signed with",
            next_command="another archive: ubuntu_archive in ~/.config/grstack/network.yaml, or GRSTACK_UBUNTU_ARCHIVE",
        )
    text = runner.capture([*gpg, "--armor", "--export", wanted])
    return "".join(f"\n {line or '.'}" for line in text.strip().splitlines())


def _primary_keys(listing: str) -> set[str]:
    """Fingerprints; those of subkeys do not count: whose key they are bound to is that key's word alone."""
    found, record = set(), ""
    for line in listing.splitlines():
        fields = line.split(":")
        if fields[0] == "fpr" and record == "pub":
            found.add(fields[9])
        record = fields[0] if fields[0] in ("pub", "sub") else record if fields[0] != "fpr" else ""
    return found
