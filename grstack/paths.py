"""Where things stand: the repository, what is built, what is cached."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs


@dataclass(frozen=True, kw_only=True)
class Paths:
    root: Path
    cache: Path

    @classmethod
    def of(cls, root: Path) -> Paths:
        cache = os.environ.get("GRSTACK_CACHE") or platformdirs.user_cache_dir("grstack")
        return cls(root=root.resolve(), cache=Path(cache).expanduser())

    @property
    def build(self) -> Path:
        return self.root / "build"

    @property
    def artefacts(self) -> Path:
        """Finished component outputs, one directory per content key; shared by all checkouts of this user."""
        return self.cache / "artefacts"

    @property
    def images(self) -> Path:
        """The keys of the images that this user has built, a file each."""
        return self.cache / "images"

    @property
    def packages(self) -> Path:
        """The packages of the last build, by name: .run files and wheels."""
        return self.build / "packages"

    @property
    def logs(self) -> Path:
        return self.build / "logs"

    @property
    def scratch(self) -> Path:
        """Half-done work; emptied by the next build that holds the lock."""
        return self.build / "scratch"

    @property
    def local(self) -> Path:
        """Environments and prefixes of `--engine none`."""
        return self.build / "local"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def wheels(self) -> Path:
        return self.cache / "wheels"
