"""The shape of versions.yaml. Values are checked one by one here; what must fit together is in _checks.py."""

from __future__ import annotations

import datetime
from functools import cached_property
from typing import Annotated, Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
)

Arch = Literal["x86_64", "aarch64"]


def _version(value: str) -> str:
    try:
        Version(value)
    except InvalidVersion:
        raise ValueError(f"'{value}' is not a PEP 440 version") from None
    return value


def _requirement(value: str) -> str:
    """An exact version, or a specifier set such as '<81'."""
    try:
        Version(value)
    except InvalidVersion:
        try:
            specifiers = SpecifierSet(value)
        except InvalidSpecifier:
            raise ValueError(f"'{value}' is neither a PEP 440 version nor a specifier such as '>=1.2'") from None
        if not len(specifiers):
            raise ValueError("a version or a specifier is needed") from None
    return value


def _wheel(value: str) -> str:
    try:
        parse_wheel_filename(value)
    except InvalidWheelFilename as error:
        raise ValueError(str(error)) from None
    return value


def _one_of(*valid: str) -> AfterValidator:
    def check(value: str) -> str:
        if value not in valid:
            raise ValueError(f"unknown name '{value}'; valid: {', '.join(valid)}")
        return value

    return AfterValidator(check)


Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]
Snake = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Python = Annotated[str, StringConstraints(pattern=r"^3\.[0-9]{1,2}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Cann = Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+(\.(RC)?[0-9]+)?([.A-Za-z0-9]+)?$")]
ExactVersion = Annotated[str, AfterValidator(_version)]
Requirement = Annotated[str, AfterValidator(_requirement)]
WheelName = Annotated[str, AfterValidator(_wheel)]
TARGETS = ("cpu", "cuda", "npu")
PLATFORMS = ("cann", "twin")
NOTEBOOK, SWEEPS, GLUON = "notebook", "sweeps", "gluon"  # in place of a target, in the names of their locks
BESIDE = (NOTEBOOK, SWEEPS, GLUON)
TargetName = Annotated[str, _one_of(*TARGETS)]
PlatformName = Annotated[str, _one_of(*PLATFORMS)]
BesideName = Annotated[str, _one_of(*BESIDE)]
Md5 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Url = Annotated[str, StringConstraints(pattern=r"^(https?|ftp)://[^/@\s]+/\S+$")]
Member = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$")]
Home = Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9._-]+)+$")]
Glibc = Annotated[str, StringConstraints(pattern=r"^2\.[0-9]{1,2}$")]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Pythons(_Model):
    default: Python
    supported: tuple[Python, ...] = Field(min_length=1)


class Resolve(_Model):
    """Bounds of the resolution: releases after `before` are not seen; `glibc` is the oldest of the bases."""

    before: datetime.date
    glibc: Glibc


class Bootstrap(_Model):
    distribution: Literal["debian", "ubuntu"]
    suite: Name

    @property
    def reference(self) -> str:
        """What a plan calls a base that is made of the distribution's packages."""
        return f"bootstrap:{self.distribution}/{self.suite}"


class Base(_Model):
    """A base image. Without a digest, `unpinned` says why.

    cann  the release of the toolkit in it; `home` is where it lies there, if not where the images before 8.5 have it
    """

    image: Text
    tag: Text
    digest: Digest | None = None
    unpinned: Text | None = None
    bootstrap: Bootstrap | None = None
    cann: Cann | None = None
    home: Home | None = None
    pythons: tuple[Python, ...] = Field(min_length=1)

    @property
    def reference(self) -> str:
        """`image@digest` or, when no digest is known, `image:tag`."""
        return f"{self.image}@{self.digest}" if self.digest else f"{self.image}:{self.tag}"


class Platform(_Model):
    """`other_pythons`: the base of each Python that `base` does not have."""

    base: Name
    other_pythons: dict[Python, Name] = {}
    cann: Cann


class Target(_Model):
    """What an image is for: its packages, and the base of each platform (or of the target itself; see there).

    In the file a target has those packages alone in which it differs; here it has those of all targets too.
    """

    summary: Text
    packages: dict[Name, Requirement] = Field(min_length=1)
    source_only: tuple[Name, ...] = ()
    bad_metadata: dict[Name, Text] = {}
    excludes: tuple[Name, ...] = ()
    base: Name | None = None
    other_pythons: dict[Python, Name] = {}
    platforms: dict[PlatformName, Platform] = {}
    components: tuple[Name, ...] = ()

    def with_cann(self, cann: str, torch_npu: str) -> Target:
        """This target on another release of CANN, with the torch_npu that goes with it."""
        platforms = {name: one.model_copy(update={"cann": cann}) for name, one in self.platforms.items()}
        return self.model_copy(update={"packages": {**self.packages, "torch_npu": torch_npu}, "platforms": platforms})


class Unsupported(_Model):
    target: Name
    python: Python | None = None
    arch: Arch | None = None
    reason: Text

    def covers(self, target: str, python: str, arch: str) -> bool:
        return self.target == target and self.python in (None, python) and self.arch in (None, arch)


class Variant(_Model):
    """Another build of a release (`torch==2.6.0+cpu`), with the packages that only the plain build needs."""

    package: Name
    version: ExactVersion
    variant: Literal["cpu"]
    local: Name
    drops: tuple[Text, ...] = ()
    wheels: dict[WheelName, Sha256] = Field(min_length=1)
    targets: tuple[Name, ...] = Field(min_length=1)


class Compatibility(_Model):
    """`source`: the text of the makers that says it."""

    package: Name
    version: ExactVersion
    torch: ExactVersion
    cann: Cann | None = None
    pythons: tuple[Python, ...] = Field(min_length=1)
    source: Text


class Operator(_Model):
    """`refused`: SoCs that it cannot be built for, each with the reason."""

    socs: tuple[Name, ...] = Field(min_length=1)
    refused: dict[Name, Text] = {}


class WheelData(_Model):
    """A public data set that a wheel carries: the wheel, and the members that make the data set."""

    summary: Text
    package: Name
    version: ExactVersion
    wheel: WheelName
    sha256: Sha256
    folder: Text
    members: dict[Name, Sha256] = Field(min_length=1)


class FileData(_Model):
    """A public data set as its makers offer it: one file; of a zip or tar archive the listed members.

    Its hash is the one that is published. Where none is, `unverified` says so, and the hash of what came first is kept.
    """

    summary: Text
    file: Name
    urls: tuple[Url, ...] = Field(min_length=1)
    sha256: Sha256 | None = None
    md5: Md5 | None = None
    unverified: Text | None = None
    members: tuple[Member, ...] = ()
    licence: Text


def _kind_of_data(value: Any) -> str:
    return "[file]" if isinstance(value, FileData) or (isinstance(value, dict) and "file" in value) else "[wheel]"


Dataset = Annotated[
    Annotated[WheelData, Tag("[wheel]")] | Annotated[FileData, Tag("[file]")], Discriminator(_kind_of_data)
]


class Tools(_Model):
    python: Python
    packages: dict[Name, Requirement] = Field(min_length=1)
    dev: dict[Name, Requirement] = {}


class Beside(_Model):
    """Packages that are put beside those of an image, whose versions stay as they are."""

    summary: Text
    packages: dict[Name, Requirement] = Field(min_length=1)


class Versions(_Model):
    schema_version: Literal["1"] = Field(alias="schema")
    pythons: Pythons
    architectures: tuple[Arch, ...] = Field(min_length=1)
    resolve: Resolve
    bases: dict[Name, Base] = Field(min_length=1)
    socs: tuple[Name, ...] = Field(min_length=1)
    packages: dict[Name, Requirement] = {}
    targets: dict[TargetName, Target] = Field(min_length=1)
    beside: dict[BesideName, Beside] = {}
    unsupported: tuple[Unsupported, ...] = ()
    variants: tuple[Variant, ...] = ()
    compatibility: tuple[Compatibility, ...] = ()
    operators: dict[Snake, Operator] = {}
    datasets: dict[Name, Dataset] = {}
    tools: Tools

    def refusal(self, target: str, python: str, arch: str) -> str | None:
        """Why this combination cannot exist, or None."""
        return next((row.reason for row in self.unsupported if row.covers(target, python, arch)), None)

    def for_cann(self, target: str, cann: str = "") -> Target:
        """A target as it stands, or on another release of CANN, one of `canns`; or what goes beside one."""
        if target in self.beside:
            return Target(summary=self.beside[target].summary, packages=self.beside[target].packages)
        return self._on_cann[target, cann] if cann else self.targets[target]

    def canns(self, target: str) -> tuple[str, ...]:
        """The releases of CANN that bases have and platform cann does not name, in the order of the bases."""
        return tuple(cann for name, cann in self._on_cann if name == target)

    @cached_property
    def _on_cann(self) -> dict[tuple[str, str], Target]:
        found = {}
        for name, target in self.targets.items():
            standing = {platform.cann for platform in target.platforms.values()}
            for cann in dict.fromkeys(base.cann for base in self.bases.values()):
                row = next((row for row in self.compatibility if self._goes(row, target, cann)), None)
                if cann and row and standing and cann not in standing:
                    found[name, cann] = target.with_cann(cann, row.version)
        return found

    @staticmethod
    def _goes(row: Compatibility, target: Target, cann: str | None) -> bool:
        return row.package == "torch_npu" and row.cann == cann and row.torch == target.packages["torch"]

    def combinations(self) -> list[tuple[str, str, str, str]]:
        """Every (target, python, arch, CANN) that can exist; CANN is empty for that of the target's platforms."""
        return [
            (target, python, arch, cann)
            for target in sorted(self.targets)
            for cann in ("", *self.canns(target))
            for python in self.pythons.supported
            for arch in self.architectures
            if self.refusal(target, python, arch) is None
        ]

    def locked(self) -> list[tuple[str, str, str, str]]:
        """What has a lock: every combination, and what goes beside an image for every Python and architecture."""
        machines = [(python, arch) for python in self.pythons.supported for arch in self.architectures]
        return [*self.combinations(), *((name, *machine, "") for name in self.beside for machine in machines)]
