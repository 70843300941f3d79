"""The Ascend C operators: where they are installed, and their results on the device against NumPy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smoke_tests.check import CheckFailed, Context, Outcome
from smoke_tests.checks import kernels
from smoke_tests.operator_names import torch_operators


def run(context: Context) -> Outcome:
    operators = [name.replace("-", "_") for name in context.manifest["operators"]]
    custom = [Path(entry) for entry in os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":") if entry]
    faults, vendors = vendor_faults(operators, Path(os.environ["ASCEND_OPP_PATH"]), custom)
    if faults:
        raise CheckFailed(f"{len(faults)} faults of installation", faults)

    import torch

    from gr_model.model.jagged import load_operators
    from gr_model.runtime.device import open_device

    device = open_device(context.device)
    load_operators(device)
    for name in torch_operators(operators):
        if not torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1"):
            raise CheckFailed(f"{name} has no kernel for NPU tensors")
    count = kernels.compare(device)
    loaded = Path("/proc/self/maps").read_text()
    unused = [vendor for vendor, library in vendors.items() if str(library.resolve()) not in loaded]
    if unused:
        raise CheckFailed("operators ran, but not from " + ", ".join(unused))
    return Outcome(f"{len(vendors)} operators, {count} results equal to the reference", list(vendors))


def vendor_faults(operators: list[str], opp: Path, custom: Sequence[Path] = ()) -> tuple[list[str], dict[str, Path]]:
    """`custom` must name vendor mxrec_<operator>, or config.ini list it, and its library must export both phases."""
    from elftools.elf.elffile import ELFFile

    named = {place.name: place for place in custom}
    wanted = [f"mxrec_{operator}" for operator in operators]
    config = opp / "vendors" / "config.ini"
    if not config.is_file() and not named.keys() >= set(wanted):
        return [f"{config} does not exist: no operator package is installed"], {}
    text = config.read_text() if config.is_file() else ""
    lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    priority = [vendor.strip() for vendor in lines.get("load_priority", "").split(",")]
    faults, vendors = [], {}
    for operator, vendor in zip(operators, wanted, strict=True):
        library = named.get(vendor, opp / "vendors" / vendor) / "op_api" / "lib" / "libcust_opapi.so"
        if vendor not in priority and vendor not in named:
            faults.append(f"{config}: load_priority does not list {vendor}; it has {', '.join(priority)}")
        elif not library.is_file():
            faults.append(f"{library} does not exist")
        else:
            with library.open("rb") as file:
                table: Any = ELFFile(file).get_section_by_name(".dynsym")
                exported = {symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF"}
            camel = "".join(part.capitalize() for part in operator.split("_"))
            lacking = {f"aclnn{camel}", f"aclnn{camel}GetWorkspaceSize"} - exported
            faults += [f"{library} does not export {symbol}" for symbol in sorted(lacking)]
            vendors[vendor] = library
    return faults, vendors
