"""The machine whose devices are asked for. `root` is another folder in tests, with /dev, drivers and tools below it."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from grstack.ask import Answer, ask
from grstack.launch.daemon import Daemon

CAP_SYS_RESOURCE = 24  # capabilities(7)
PATIENCE = 5.0  # seconds that an engine may take to answer
FOLDERS = ("/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin", "/bin", "/sbin")


@dataclass(frozen=True, kw_only=True)
class Machine:
    root: Path = Path("/")
    uid: int = field(default_factory=os.getuid)
    gid: int = field(default_factory=os.getgid)

    def path(self, place: str) -> Path:
        return self.root / place.lstrip("/")

    def has(self, place: str) -> bool:
        return self.path(place).exists()

    def those(self, places: Iterable[str]) -> tuple[str, ...]:
        """The places that exist here, in their order."""
        return tuple(place for place in places if self.has(place))

    def tool(self, name: str) -> str:
        """Where a command lies on this machine, or an empty text."""
        path = os.environ.get("PATH", "").split(os.pathsep)
        folders = [folder for folder in path if folder.startswith("/")]
        places = (f"{folder.rstrip('/')}/{name}" for folder in (*folders, *FOLDERS))
        return next((place for place in places if os.access(self.path(place), os.X_OK)), "")

    def ask(self, tool: str, *arguments: str, timeout: float | None = None) -> Answer:
        """`tool` is what `tool()` gave. Messages of the drivers are not translated, tables are."""
        return ask([str(self.path(tool)), *arguments], env={"LC_ALL": "C"}, timeout=timeout)

    @cached_property
    def docker(self) -> Daemon:
        """The engine that the command `docker` reaches from here."""
        tool = self.tool("docker")
        answer = self.ask(tool, "info", "--format", "{{json .}}", timeout=PATIENCE) if tool else Answer(127, "", "")
        try:
            info = json.loads(answer.output) if not answer.code else {}
        except ValueError:
            info = {}
        return Daemon.of(info if isinstance(info, dict) else {})

    def text(self, place: str) -> str:
        try:
            return self.path(place).read_text(errors="replace")
        except OSError:
            return ""

    def document(self, place: str) -> Any:
        """A JSON file, or None where it is not there or no JSON."""
        try:
            return json.loads(self.text(place))
        except ValueError:
            return None

    def groups_of(self, nodes: Iterable[str]) -> tuple[int, ...]:
        """The groups that a user must be in to open the nodes; none where everybody may."""
        closed = [found for node in nodes if not (found := self.path(node).stat()).st_mode & stat.S_IWOTH]
        return tuple(sorted({found.st_gid for found in closed} - {0}))

    @property
    def raises_limits(self) -> bool:
        """Whether an engine here may raise the limits of a process: not where this machine is a container itself."""
        found = re.search(r"^CapBnd:\s*([0-9a-f]+)$", self.text("/proc/self/status"), re.MULTILINE)
        return found is None or bool(int(found[1], 16) >> CAP_SYS_RESOURCE & 1)

    @property
    def selinux(self) -> bool:
        """Whether SELinux keeps containers from files and devices of the host."""
        return self.text("/sys/fs/selinux/enforce").strip() == "1"
