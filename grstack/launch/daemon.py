"""The container engine as `docker info` describes it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """`version` is empty where no engine has answered: then nothing is known of it."""

    version: str = ""
    name: str = ""  # of the machine that it runs on
    rootless: bool = False  # who starts it is root in its containers, and every other user there is nobody here
    cdi: bool = False  # takes names of the Container Device Interface: an option of Docker 25, the rule in 28.2

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> Daemon:
        security = [str(option).split(",")[0] for option in info.get("SecurityOptions") or ()]
        return cls(
            version=str(info.get("ServerVersion") or ""),
            name=str(info.get("Name") or ""),
            rootless="name=rootless" in security,
            cdi=bool(info.get("CDISpecDirs")),  # an empty list says that it is off
        )

    @property
    def elsewhere(self) -> bool:
        """Whether it runs on another machine, also a virtual one on this."""
        return self.name not in ("", socket.gethostname())
