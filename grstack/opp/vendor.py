"""One vendor: a directory of operators, `<opp>/vendors/<vendor>`, as a package leaves it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from grstack.opp import library

OPAPI = "op_api/lib/libcust_opapi.so"
CONFIG = "op_impl/ai_core/tbe/config"


@dataclass(frozen=True, kw_only=True)
class Vendor:
    name: str
    path: str
    package: str = ""
    version: str = ""
    compiler: str = ""  # custom_opp_compiler_version; twin-<version> for packages of the twin
    socs: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()  # by the symbols that its library exports
    owner: int = -1  # user id of the library
    fault: str = ""  # why it can serve nothing

    @property
    def emulated(self) -> bool:
        return self.compiler.startswith("twin-")


def read(path: Path) -> Vendor:
    """Whatever is there; what is missing or broken stands in `fault`."""
    info = _info(path / "version.info")
    known = Vendor(
        name=path.name,
        path=str(path),
        package=info.get("package", ""),
        version=info.get("package_version", ""),
        compiler=info.get("custom_opp_compiler_version", ""),
        socs=tuple(sorted(folder.name for folder in (path / CONFIG).glob("*") if folder.is_dir())),
    )
    opapi = path / OPAPI
    if not path.is_dir():
        return replace(known, fault="the directory is not there")
    if not opapi.exists():
        return replace(known, fault=f"{OPAPI} is not there")
    try:
        found = library.read(opapi)
    except library.NotALibrary as error:
        return replace(known, fault=f"{OPAPI} cannot be read: {error}")
    return replace(known, operators=found.operators, owner=opapi.stat().st_uid)


def _info(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, equals, value in (line.partition("=") for line in lines) if equals}


def operator_name(text: str) -> str:
    """The form in which names are compared: AddCustom, aclnnAddCustom and add_custom are one operator."""
    return re.sub(r"[^a-z0-9]", "", text.removeprefix("aclnn").lower())
