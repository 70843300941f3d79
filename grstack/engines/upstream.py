"""Where a base image comes from: it is here, a registry gives it, or it is bootstrapped from the distribution."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

from grstack import keys
from grstack.errors import EngineError, NetworkError, UsageError
from grstack.files import write_atomically
from grstack.network import Settings
from grstack.paths import Paths
from grstack.run import CommandFailed, Runner
from grstack.spec import Base

WAYS = ("auto", "registry", "bootstrap")
REMEMBERED = 24 * 3600.0  # seconds until a registry that did not answer is asked again
REPOSITORY = "grstack/upstream"
_UNREACHABLE = re.compile(
    r"no such host|server misbehaving|connection refused|connection reset|network is unreachable|no route to host"
    r"|i/o timeout|TLS handshake timeout|Client\.Timeout|context deadline exceeded|proxyconnect|x509:|\bEOF\b"
    r"|Bad Gateway|Service Unavailable|Gateway Timeout|Proxy Authentication Required",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(r"manifest unknown|not found")  # the registry answers and has no image of this digest
_ANSWERED = re.compile(r"Pulling from|Pulling fs layer|Download complete|Verifying Checksum|Pull complete|Waiting$")


def asked_for(base: Base, settings: Settings) -> list[str]:
    """What is pulled, in order: from the configured registry if there is one, else from the public one."""
    names = settings.mirrored(base.image) or (base.image,)
    return [base.model_copy(update={"image": name}).reference for name in names]


class Upstream:
    def __init__(self, paths: Paths, runner: Runner, settings: Settings, client: Any, cli: Path) -> None:
        self.paths = paths
        self.runner = runner
        self.settings = settings
        self.client = client
        self.cli = cli

    def resolve(self, base: Base, *, act: bool) -> str:
        """The digest reference of `base`, without a registry of this host, or `bootstrap:<distribution>/<suite>`.

        Without `act` nothing is asked or changed: what is known counts, else what would be pulled.
        """
        way = os.environ.get("GRSTACK_BASE", "auto")
        if way not in WAYS:
            raise UsageError.unknown("GRSTACK_BASE", way, WAYS)
        bootstrap = base.bootstrap.reference if base.bootstrap else ""
        if way == "bootstrap":
            return bootstrap or self._no_bootstrap(base)
        here = self._here(base, act=act)
        if here:
            return here
        if way == "auto" and bootstrap and self._unreachable_lately(base):
            return bootstrap
        if not act:
            return base.reference
        try:
            self._pull(base)
        except NetworkError as error:
            if way != "auto" or not bootstrap:
                raise
            self.runner.console.print(f"{error.what}: the base is bootstrapped from the distribution's packages")
            self._remember(base)
            return bootstrap
        return self._here(base, act=True) or base.reference

    def local_name(self, reference: str) -> str:
        """The name of a resolved base in this engine's store. It tells no registry of this host."""
        return f"{REPOSITORY}:{keys.of_text(reference)[:12]}"

    def _no_bootstrap(self, base: Base) -> str:
        raise EngineError(
            f"the base {base.reference} is an image and cannot be bootstrapped",
            where="versions.yaml, bases",
            next_command="unset GRSTACK_BASE",
        )

    # In the store ----------------------------------------------------------------------------------------------------

    def _here(self, base: Base, *, act: bool) -> str:
        import docker.errors

        for name in (self.local_name(base.reference), base.reference, *asked_for(base, self.settings)):
            try:
                image = self.client.images.get(name)
            except docker.errors.ImageNotFound:
                continue
            reference = self._identity(base, image)
            if act:
                repository, _, tag = self.local_name(reference).partition(":")
                image.tag(repository, tag=tag)
            return reference
        return ""

    def _identity(self, base: Base, image: Any) -> str:
        """`image@digest`; where only a tag is pinned, the digest that the registry gave for it."""
        if base.digest:
            return base.reference
        digests = sorted({entry.partition("@")[2] for entry in image.attrs.get("RepoDigests") or []})
        # an image that was loaded from a file has no digest: its own id tells it apart
        return f"{base.image}@{digests[0]}" if digests else f"{base.reference} (image {image.id})"

    # From a registry -------------------------------------------------------------------------------------------------

    def _pull(self, base: Base) -> None:
        """Pulls without a limit of time: a large image over a slow line is not a registry that does not answer."""
        for reference in asked_for(base, self.settings):
            try:
                self.runner.stream([str(self.cli), "pull", reference], log=self.paths.logs / "base.log")
                return
            except CommandFailed as error:
                failure = error
        said = self.settings.redact(failure.tail[-1].strip()) if failure.tail else ""
        if any(_ANSWERED.search(line) for line in failure.tail):
            raise EngineError(
                f"the download of {base.reference} broke off: {said}", next_command="the same command again continues"
            )
        if _UNREACHABLE.search(said):
            raise NetworkError(
                f"no registry that has {base.reference} can be reached ({said})",
                where="registry in ~/.config/grstack/network.yaml, or GRSTACK_REGISTRY; the engine's own proxies",
                next_command="inv doctor, or docker load -i <file with the image>",
            )
        if base.digest and _UNKNOWN.search(said):
            raise self._unknown(base, said)
        raise EngineError(
            f"the base image {base.reference} cannot be pulled: {said}",
            next_command="docker login, or GRSTACK_BASE=bootstrap" if base.bootstrap else "docker login",
        )

    def _unknown(self, base: Base, said: str) -> EngineError:
        """The registry answers and has no image of this digest: under the tag it has another one, or none at all."""
        place = (self.settings.mirrored(base.image) or (base.image,))[0]
        what = f"the base image {base.reference} cannot be pulled: {said}"
        there = self._digest_of_tag(base)
        if there:
            return EngineError(
                f"{what}; under the tag {base.tag} is {there}",
                where=f"versions.yaml, bases: the digest of {base.image}:{base.tag}",
                next_command=f"docker pull {place}@{base.digest}, once the registry has it; or pin the other",
            )
        if self.settings.registry:
            return EngineError(
                f"{what}; the registry has no {base.image}:{base.tag} either",
                where="registry in ~/.config/grstack/network.yaml, or GRSTACK_REGISTRY",
                next_command=f"docker push {place}:{base.tag}, from a machine that has it",
            )
        return EngineError(
            what,
            where=f"versions.yaml, bases: the digest of {base.image}:{base.tag}",
            next_command=f"docker pull {place}:{base.tag}, which says the digest that is there",
        )

    def _digest_of_tag(self, base: Base) -> str:
        """What the registry has under the tag, as the engine is told; empty where it has none."""
        import docker.errors

        for name in self.settings.mirrored(base.image) or (base.image,):
            with contextlib.suppress(docker.errors.APIError):
                return str(self.client.images.get_registry_data(f"{name}:{base.tag}").id)
        return ""

    @property
    def _memory(self) -> Path:
        return self.paths.build / "unreachable-bases.json"

    def _asked_key(self, base: Base) -> str:
        return keys.of_text("\n".join(asked_for(base, self.settings)))

    def _unreachable_lately(self, base: Base) -> bool:
        since = self._remembered().get(self._asked_key(base), 0.0)
        return 0 <= time.time() - since < REMEMBERED

    def _remembered(self) -> dict[str, float]:
        try:
            content: dict[str, float] = json.loads(self._memory.read_text())
        except (OSError, ValueError):
            return {}
        return content

    def _remember(self, base: Base) -> None:
        content = {**self._remembered(), self._asked_key(base): time.time()}
        write_atomically(self._memory, json.dumps(content, indent=1) + "\n")
