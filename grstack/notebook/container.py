"""The container of a notebook or of SSH: who its user is, what it sees, and the `docker run` that says so. Pure but for
the folders that `Folders.make` makes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grstack.launch.access import SecurityContext
from grstack.paths import Paths

NAMELESS = 1000  # whose place is taken where root starts it: nothing is served as root
START = ("/opt/grstack/notebook/bin/python", "/opt/grstack/notebook/start/start.py")
PORTS = {"lab": 8888, "ssh": 2222}  # inside the container
USER = "grstack"
SHARDS = "/out/shards"  # of data sets, since /data is read-only


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The user of the container: the host's, so that what it writes belongs to them."""

    uid: int
    gid: int

    @classmethod
    def here(cls) -> Owner:
        return cls(uid=os.getuid() or NAMELESS, gid=os.getgid() or NAMELESS)

    @property
    def user(self) -> str:
        return f"{self.uid}:{self.gid}"

    @property
    def passwd(self) -> str:
        """/etc/passwd, so that the user has a name, a home and a shell. No other account has a shell."""
        return (
            "root:x:0:0:root:/root:/usr/sbin/nologin\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
            f"{USER}:x:{self.uid}:{self.gid}::/out:/bin/bash\n"
        )

    @property
    def group(self) -> str:
        return f"root:x:0:\nnogroup:x:65534:\n{USER}:x:{self.gid}:\n"


@dataclass(frozen=True, kw_only=True)
class Folders:
    out: Path  # /out: notebooks, runs, the user's home
    data: Path  # /data
    source: Path  # /source: the checkout
    keys: Path  # /ssh
    accounts: Path  # passwd and group

    @classmethod
    def of(cls, paths: Paths) -> Folders:
        place = paths.build / "notebook"
        return cls(
            out=paths.build / "out", data=paths.data, source=paths.root, keys=place / "ssh", accounts=place / "accounts"
        )

    def make(self, owner: Owner) -> None:
        """What the container's user writes to is theirs; files that are there already are left as they are."""
        for folder in (self.out, self.data, self.keys, self.accounts):
            folder.mkdir(parents=True, exist_ok=True)
        self.keys.chmod(0o700)
        (self.accounts / "passwd").write_text(owner.passwd)
        (self.accounts / "group").write_text(owner.group)
        if os.getuid() == 0:
            for folder in (self.out, self.keys):
                os.chown(folder, owner.uid, owner.gid)

    def volumes(self, service: str) -> list[str]:
        places = [
            f"{self.out}:/out",
            f"{self.data}:/data:ro",
            f"{self.source}:/source:ro",
            f"{self.accounts / 'passwd'}:/etc/passwd:ro",
            f"{self.accounts / 'group'}:/etc/group:ro",
        ]
        return [*places, *([f"{self.keys}:/ssh"] if service == "ssh" else [])]


def run_argv(
    client: Path,
    *,
    image: str,
    service: str,
    name: str,
    published: str,
    owner: Owner,
    folders: Folders,
    context: SecurityContext,
    env: Mapping[str, str],
    from_environment: Sequence[str] = (),
) -> list[str]:
    """`published` is ADDRESS:PORT of the host. `from_environment` names variables whose values stay out of the command
    line: the token."""
    given = replace(context, user=owner.user)
    argv = [str(client), "run", "--rm", f"--name={name}", f"--publish={published}:{PORTS[service]}"]
    argv += ["--cap-drop=ALL", "--security-opt=no-new-privileges"]
    argv += given.options()
    argv += [f"--volume={volume}" for volume in folders.volumes(service)]
    variables = {**given.environment, "GRSTACK_SHARDS": SHARDS, **env}
    argv += [f"--env={key}={value}" for key, value in sorted(variables.items())]
    argv += [f"--env={key}" for key in from_environment]
    return [*argv, image, *START, service]
