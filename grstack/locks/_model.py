"""A lock: the exact wheels of one (target, python, arch, CANN). Read from and written to locks/<name>.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator

from grstack.errors import LockError

Build = Literal["plain", "cpu"]


class Package(BaseModel):
    """One wheel.

    variant     which build it is; a `cpu` wheel takes the place of the plain one of the same name
    plain_only  needed by the plain build of torch only (its CUDA libraries)
    no_deps     its metadata contradicts the lock, so a resolver must not see it
    installed   False for a wheel that only serves as source of a recipe
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: str
    filename: str
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    no_deps: bool = False
    variant: Build = "plain"
    plain_only: bool = False
    installed: bool = True

    @model_validator(mode="after")
    def _filename_agrees(self) -> Package:
        try:
            name, version, _, _ = parse_wheel_filename(self.filename)
        except InvalidWheelFilename as error:
            raise ValueError(str(error)) from None
        if name != canonicalize_name(self.name) or str(version) != self.version:
            raise ValueError(f"{self.filename} is not {self.name} {self.version}")
        return self

    @property
    def requirement(self) -> str:
        """The line of a requirements file that takes this file and no other."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


class Lock(BaseModel):
    """`inputs` is the hash of what versions.yaml asked for, so that a stale lock is noticed. `cann`: another release of
    it than the target's platforms name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str
    python: str
    arch: str
    cann: str = ""
    inputs: str
    packages: tuple[Package, ...]

    @property
    def name(self) -> str:
        return lock_name(self.target, self.python, self.arch, self.cann)

    @property
    def builds(self) -> tuple[Build, ...]:
        """The builds of torch that this lock offers, the preferred one first."""
        return ("cpu", "plain") if any(package.variant == "cpu" for package in self.packages) else ("plain",)

    def wheels(self, build: Build) -> tuple[Package, ...]:
        """The wheels to download for a build: the cpu wheels in place of the plain ones, or the plain ones."""
        if build == "plain":
            return tuple(package for package in self.packages if package.variant == "plain")
        replaced = {package.name for package in self.packages if package.variant == "cpu"}
        return tuple(
            package
            for package in self.packages
            if package.variant == "cpu" or not (package.plain_only or package.name in replaced)
        )

    def text(self) -> str:
        return json.dumps(self.model_dump(exclude=None if self.cann else {"cann"}), indent=2) + "\n"


def lock_name(target: str, python: str, arch: str, cann: str = "") -> str:
    """`npu-py3.11-x86_64`, or `npu-cann8.5.0-py3.11-x86_64`."""
    return f"{target}{f'-cann{cann.lower()}' if cann else ''}-py{python}-{arch}"


def lock_path(root: Path, target: str, python: str, arch: str, cann: str = "") -> Path:
    return root / "locks" / f"{lock_name(target, python, arch, cann)}.json"


def parse(path: Path) -> Lock:
    try:
        return Lock.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise LockError("there is no lock", where=str(path), next_command="inv lock") from None
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors(include_url=False)]
        raise LockError(
            "the lock is malformed:\n" + "\n".join(f"  {fault}" for fault in faults),
            where=str(path),
            next_command=f"inv lock --only {path.stem}",
        ) from None
