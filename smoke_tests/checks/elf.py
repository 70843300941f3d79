"""The ELF closure: for every shared object of the stack, each NEEDED library is looked up as the loader would."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from smoke_tests.check import CheckFailed, Context, Outcome

PACKAGES = ("torch", "torch_npu", "fbgemm_gpu", "gr_ops", "hybrid_torchrec", "torchrec_embcache")
# Not in the image, by design: each comes from the host, and only where the hardware is.
HOST_SUPPLIED = {
    "libcuda.so.1": "NVIDIA driver",
    "libnvidia-ml.so.1": "NVIDIA driver",
    "libascend_hal.so": "Ascend driver",
    "libdrvdsmi_host.so": "Ascend driver",
}
# Only torch_npu's plug-in for it asks for this one, and only where a program calls an operator of it.
OPTIONAL = {"libatb.so": "Ascend Transformer Boost, of CANN's package NNAL"}
# Parts of CANN that the twin does not emulate; only torch_npu's graph mode, which is optional, asks for them.
NOT_EMULATED = {
    "libfmk_parser.so": "CANN's graph engine (torchair)",
    "libascend_protobuf.so": "CANN's graph engine (torchair)",
}


@dataclass(frozen=True)
class SharedObject:
    path: Path
    machine: str
    soname: str
    needed: tuple[str, ...]
    search: tuple[Path, ...]  # DT_RPATH or DT_RUNPATH


def run(context: Context) -> Outcome:
    emulated = bool(context.manifest.get("emulated"))
    objects = [found for root in roots(emulated=emulated) for found in shared_objects(root)]
    allowed = HOST_SUPPLIED | OPTIONAL | (NOT_EMULATED if emulated else {})
    faults, left = unresolved(objects, system_directories(), allowed)
    if faults:
        raise CheckFailed(f"{len(faults)} libraries are not found", faults)
    details = [f"left out: {name} ({allowed[name]})" for name in sorted(left)]
    return Outcome(f"{len(objects)} shared objects, {sum(len(o.needed) for o in objects)} references resolve", details)


def roots(*, emulated: bool) -> list[Path]:
    """Libraries of the stack. A toolkit's own are its maker's, some for the device's own processor: none of them."""
    places = []
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec and spec.submodule_search_locations:
            places.append(Path(next(iter(spec.submodule_search_locations))))
    if emulated and (home := os.environ.get("ASCEND_HOME_PATH")):
        places.append(Path(home) / "lib64")
    if opp := os.environ.get("ASCEND_OPP_PATH"):
        places.append(Path(opp) / "vendors")
    places += [Path(entry) for entry in os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":") if entry]
    return [place for place in places if place.is_dir()]


def shared_objects(root: Path) -> Iterator[SharedObject]:
    for path in sorted(root.rglob("*.so*")):
        if path.is_file() and not path.is_symlink() and (found := read(path)):
            yield found


def read(path: Path) -> SharedObject | None:
    """None if the file is not ELF (a .so.py, a linker script)."""
    with path.open("rb") as file:
        try:
            elf = ELFFile(file)
        except ELFError:
            return None
        dynamic = elf.get_section_by_name(".dynamic")
        if not isinstance(dynamic, DynamicSection):
            return None
        needed, search, soname = [], [], path.name
        tag: Any  # its attributes follow from its kind
        for tag in dynamic.iter_tags():
            if tag.entry.d_tag == "DT_NEEDED":
                needed.append(tag.needed)
            elif tag.entry.d_tag == "DT_SONAME":
                soname = tag.soname
            elif tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
                text = tag.rpath if tag.entry.d_tag == "DT_RPATH" else tag.runpath
                for name in ("$ORIGIN", "${ORIGIN}"):
                    text = text.replace(name, str(path.parent))
                search += [Path(part) for part in text.split(":") if part]
        return SharedObject(path, elf.get_machine_arch(), soname, tuple(needed), tuple(search))


def unresolved(
    objects: Iterable[SharedObject], system: list[Path], allowed: Container[str]
) -> tuple[list[str], set[str]]:
    """Faults, and those of the allowed names that were not found."""
    objects = list(objects)
    # A library that an import has loaded answers by its soname, without any search: fbgemm_gpu relies on torch's, and
    # on those of CUDA that torch's need.
    first = [o for o in objects if o.path.parent.name == "lib" and o.path.parent.parent.name in PACKAGES[:2]]
    loaded = {name for o in first for name in (o.soname, *o.needed)}
    faults, left = [], set()
    for item in objects:
        for name in item.needed:
            found = next((folder / name for folder in (*item.search, *system) if (folder / name).exists()), None)
            if found is not None:
                other = read(found.resolve())
                if other is not None and other.machine != item.machine:
                    faults.append(f"{item.path}: {name} is found for {other.machine}, needed for {item.machine}")
            elif name in allowed:
                left.add(name)
            elif name not in loaded:
                faults.append(f"{item.path}: {name} is not found")
    return faults, left


def system_directories() -> list[Path]:
    """LD_LIBRARY_PATH, then the folders that the loader's cache knows."""
    listed = [Path(part) for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part]
    ldconfig = next((tool for tool in ("/sbin/ldconfig", "/usr/sbin/ldconfig") if os.path.exists(tool)), "ldconfig")
    cache = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True).stdout
    cached = {Path(line.rsplit("=> ", 1)[1]).parent for line in cache.splitlines() if "=> " in line}
    return listed + sorted(cached) + [Path("/lib64"), Path("/usr/lib64")]
