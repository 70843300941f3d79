"""The tree of an installed vendor package, as `inv install-ops` and the runtime read it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import generate
from definition import Operator
from operator_build import Build, BuildError

_OURS = "custom_opp_compiler_version=twin-"  # begins the version.info of what is built here


def link_host(build: Build, host: list[Path], name: str) -> Path:
    library = build.work / name
    build.run([*build.compiler, "-shared", f"-Wl,-soname,{name}", *map(str, host), "-o", str(library)])
    return library


def install(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755 if source.suffix == ".so" else 0o644)


def write(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def prototype(op: Operator) -> str:
    """The graph-mode prototype of op_proto.h."""
    lines = [f"REG_OP({op.type})"]
    suffix = {"dynamic": "DYNAMIC_", "optional": "OPTIONAL_"}
    for kind, parameters in (("INPUT", op.inputs), ("OUTPUT", op.outputs)):
        for p in parameters:
            lines.append(f"    .{suffix.get(p.option, '')}{kind}({p.name}, ge::TensorType::ALL())")
    lines += [
        f"    .{'REQUIRED_ATTR' if a.option == 'required' else 'ATTR'}({a.name}, {a.kind[:1].upper()}{a.kind[1:]})"
        for a in op.attributes
        if not a.has_default
    ]
    return "\n".join([*lines, f"    .OP_END_FACTORY_REG({op.type});"])


def ops_info(op: Operator) -> dict[str, Any]:
    info: dict[str, Any] = {"opFile": {"value": op.snake}, "opInterface": {"value": op.snake}}
    for kind, parameters in (("input", op.inputs), ("output", op.outputs)):
        for i, p in enumerate(parameters):
            info[f"{kind}{i}"] = {"name": p.name, "paramType": p.option, "dtype": p.types, "format": p.formats}
    if op.attributes:
        info["attr"] = {"list": ",".join(a.name for a in op.attributes)}
        for a in op.attributes:
            info[f"attr_{a.name}"] = {"paramType": a.option, "type": a.kind}
    return info


def lay_out(build: Build, operators: list[Operator], opapi: Path, host: list[Path]) -> Path:
    root = build.out / "packages" / "vendors" / build.vendor
    info = root / "version.info"
    if root.exists() and any(root.iterdir()):
        if root.is_symlink() or not info.is_file() or not info.read_text().startswith(_OURS):
            raise BuildError(
                f"{root} is there and was not built by this tool; mv {root} ELSEWHERE, or choose another --out"
            )
        shutil.rmtree(root)
    write(info, f"{_OURS}{build.version}\n")
    install(opapi, root / "op_api/lib/libcust_opapi.so")
    proto_lib = link_host(build, host, "libcust_opsproto_rt2.0.so")
    install(proto_lib, root / f"op_proto/lib/linux/{build.arch}/libcust_opsproto_rt2.0.so")
    tiling_lib = link_host(build, host, "libcust_opmaster_rt2.0.so")
    tbe = root / "op_impl/ai_core/tbe"
    relative = Path(f"lib/linux/{build.arch}/libcust_opmaster_rt2.0.so")
    install(tiling_lib, tbe / "op_tiling" / relative)
    (tbe / "op_tiling/liboptiling.so").symlink_to(relative)
    write(
        root / "op_proto/inc/op_proto.h",
        '#pragma once\n#include "graph/operator_reg.h"\n\nnamespace ge {\n\n'
        + "\n\n".join(prototype(op) for op in operators)
        + "\n\n}\n",
    )
    for op in operators:
        write(root / f"op_api/include/aclnn_{op.snake}.h", generate.header(op))
        sources = [build.op / "op_kernel", build.op.parent / "common"]
        for source in [f for folder in sources if folder.is_dir() for f in sorted(folder.glob("*.[ch]*"))]:
            install(source, tbe / f"{build.vendor}_impl/dynamic" / source.name)
    for soc in build.socs:
        infos = {op.type: ops_info(op) for op in operators}
        write(tbe / f"config/{soc}/aic-{soc}-ops-info.json", json.dumps(infos, indent=2, sort_keys=True) + "\n")
        (tbe / f"kernel/{soc}").mkdir(parents=True, exist_ok=True)
        binaries: dict[str, Any] = {op.type: {"binaryList": []} for op in operators}
        write(tbe / f"kernel/config/{soc}/binary_info_config.json", json.dumps(binaries, indent=2) + "\n")
    return root
