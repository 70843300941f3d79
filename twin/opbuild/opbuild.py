"""Builds one Ascend C operator for the twin and lays out its vendor tree.

Knows no operator by name: everything follows from the OpDefs that op_host registers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform as host_platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import address_spaces  # noqa: E402
import generate  # noqa: E402
import host_compiler  # noqa: E402
import source_rules  # noqa: E402
from definition import DefinitionError, Operator, check, check_socs, habits, parse  # noqa: E402

CORES = HERE.parent / "cores"  # the emulated AI cores, built into every operator library
CORES_BUILT = CORES / "cores.o"  # a home has them compiled: a third of an operator's build, and the same for all
KNOWN_SOCS = ("ascend910b", "ascend910_93", "ascend310p")
SUPPORTED_ARCHS = ("x86_64", "aarch64")
# Line tables, for the place where a kernel was stopped; a frame of 32 KiB is all the stack that a core has.
KERNEL_FLAGS = ("-g1", "-Wframe-larger-than=32768", "-Wno-unused-parameter")
_OURS = "custom_opp_compiler_version=twin-"  # begins the version.info of what is built here
# As in the vendor's own runs on a CPU: kernels leave out what only launches by <<<>>>.
CPU_MACROS = ("-D__CCE_KT_TEST__=1", "-DASCENDC_CPU_DEBUG=1", "-D__CCE_AICORE__=220", "-D__NPU_ARCH__=2201")
DIVISION_FLAG = "-fsanitize=integer-divide-by-zero"  # reported by cores/arithmetic.cpp


class BuildError(Exception):
    """A step of the build failed; the message holds the command and its output."""


@dataclass(frozen=True, kw_only=True)
class Build:
    op: Path
    out: Path
    vendor: str
    socs: list[str]
    arch: str
    jobs: int
    ascend_home: Path
    include: list[Path]
    link: list[Path]
    version: str
    work: Path
    sanitize: str = ""
    werror: bool = False
    any_soc: bool = False
    check_only: bool = False
    cores: Path = CORES_BUILT
    cxx: str = "g++"
    log: list[str] = field(default_factory=list)

    @property
    def compiler(self) -> list[str]:
        flags = ["-std=c++17", "-O0" if self.check_only else "-O3", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"]
        flags += [f"-ffile-prefix-map={self.op.parent}=operators", f"-ffile-prefix-map={HERE}=opbuild"]
        flags += [f"-ffile-prefix-map={self.work}=build"]
        if self.sanitize:
            flags += [f"-fsanitize={self.sanitize}", "-fno-sanitize-recover=all", "-g"]
        return [self.cxx, *flags]

    @property
    def api_includes(self) -> list[str]:
        common = self.op.parent / "common"
        folders = [self.op / "op_kernel", self.op / "op_host", *([common] if common.is_dir() else [])]
        return [f"-I{p}" for p in [*folders, *self.include]]

    def run(self, command: list[str]) -> str:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise BuildError(f"+ {shlex.join(command)}\nexit code {result.returncode}\n{result.stdout}{result.stderr}")
        if result.stderr.strip():
            print(result.stderr, file=sys.stderr)
        return result.stdout

    def compile(self, source: Path, target: Path, extra: list[str]) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        self.run([*self.compiler, *extra, "-c", str(source), "-o", str(target)])
        return target


def check_host_language(build: Build, source: Path) -> None:
    """The toolkit compiles op_host as C++11: what needs more builds here and not there."""
    flags = ["-std=c++11", "-Wall", "-Wextra", *(["-Werror"] if build.werror else [])]
    try:
        build.run([build.cxx, *flags, "-fsyntax-only", *build.api_includes, str(source)])
    except BuildError as error:
        raise BuildError(
            f"{source}: op_host is compiled as C++11 by the toolkit, and does not compile as that\n{error}"
        ) from None


def describe(build: Build) -> tuple[list[Path], list[Operator], list[dict[str, Any]]]:
    """Compile op_host, run the dump program on it. Returns objects, operators, tiling classes."""
    sources = sorted((build.op / "op_host").glob("*.cpp"))
    if not sources:
        raise BuildError(f"{build.op}/op_host holds no .cpp file")
    dump_source = HERE / "templates" / "dump_definitions.cpp"

    def compile_host(source: Path) -> Path:
        if source != dump_source:
            check_host_language(build, source)
        return build.compile(source, build.work / "host" / f"{source.stem}.o", build.api_includes)

    with ThreadPoolExecutor(build.jobs) as pool:
        *objects, dump = pool.map(compile_host, [*sources, dump_source])
    program = build.work / "dump_definitions"
    build.run([*build.compiler, *map(str, [*objects, dump]), "-o", str(program)])
    data = json.loads(build.run([str(program)]))
    operators = parse(data, build.socs)
    if not operators:
        raise BuildError(f"{build.op}/op_host registers no operator (OP_ADD)")
    for op in operators:
        check(op, strict=build.werror)
        warn_of_habits(build, op)
        if not (build.op / "op_kernel" / f"{op.snake}.cpp").is_file():
            raise BuildError(f"{op.type}: op_kernel/{op.snake}.cpp does not exist (the snake case of the type)")
    return objects, operators, data["tiling_classes"]


def warn_of_habits(build: Build, op: Operator) -> None:
    if not build.werror and (found := habits(op)):
        print(f"opbuild: warning: {op.type}: " + "; ".join(found), file=sys.stderr)


def check_source_rules(build: Build, kernel: Path) -> None:
    """The macros that the toolkit finds by pattern; with --werror a broken rule ends the build."""
    folders = [build.op / "op_kernel", build.op.parent / "common"]
    headers = [header for folder in folders for header in sorted(folder.glob("*.h"))]
    if not (found := source_rules.check([kernel, *headers])):
        return
    if build.werror:
        raise BuildError("the toolkit looks for these macros by pattern\n" + "\n".join(found))
    for line in found:
        print(f"opbuild: warning: {line}", file=sys.stderr)


def check_address_spaces(build: Build, unit: Path, flags: list[str]) -> None:
    """Pointers of a kernel unit, each to its own memory. Without clang nothing is checked; main() says so."""
    clang = address_spaces.compiler()
    if clang and (found := address_spaces.faults(clang, unit, flags)):
        raise BuildError(
            "a pointer to one memory is used as one to another (__gm__ is global memory; local memory is reached"
            f" through LocalTensor): the device's compiler refuses it\n{found}"
        )


def kernel_objects(
    build: Build, op: Operator, tiling: list[dict[str, Any]], first: int
) -> tuple[list[Path], list[int]]:
    """Compile the kernel once per distinct set of macros that its source uses. Returns objects and column -> object."""
    kernel = build.op / "op_kernel" / f"{op.snake}.cpp"
    check_source_rules(build, kernel)
    generated = build.work / "generated"
    own = [c for c in tiling if c["operator"] == op.type or c["operator"].startswith(f"{op.type}_")]
    tiling_flags: list[str] = []
    if own:
        tiling_header = generated / f"{op.snake}_tiling_data.h"
        default = next((c for c in own if c["operator"] == op.type), own[0])
        tiling_header.write_text(generate.tiling_structs(tiling, default["name"]))
        tiling_flags = [f'-DTWIN_TILING_HEADER="{tiling_header}"']
    columns = [op.macros(c) for c in range(op.combinations)]

    def flags(macros: dict[str, str]) -> list[str]:
        return [*CPU_MACROS, *tiling_flags, *(f"-D{k}={v}" for k, v in macros.items()), *build.api_includes]

    text = build.run([build.cxx, "-std=c++17", "-E", "-dU", *flags(columns[0]), str(kernel)])
    used = used_macros(text, op)
    headers = generate.Headers(system_headers(text, build.include), api_headers(text, build.include))
    reopened = re.search(r"^\s*namespace\s+AscendC\b", own_text(text, build.include), re.MULTILINE) is not None
    keys = [tuple(sorted((k, v) for k, v in macros.items() if k in used)) for macros in columns]
    distinct = list(dict.fromkeys(keys))

    def compile_kernel(index: int) -> Path:
        number = first + index
        unit = generated / f"{op.snake}_{number}.cpp"
        unit.write_text(generate.kernel_unit(op, str(kernel), headers, number, reopened))
        extra = [f"-DTWIN_OBJECT={number}", *KERNEL_FLAGS]
        extra += [] if build.sanitize else [DIVISION_FLAG]
        extra += ["-Werror"] if build.werror else []
        macros = columns[keys.index(distinct[index])]
        check_address_spaces(build, unit, [extra[0], *flags(macros)])
        target = build.work / "kernel" / f"{op.snake}_{number}.o"
        return target if build.check_only else build.compile(unit, target, [*extra, *flags(macros)])

    with ThreadPoolExecutor(build.jobs) as pool:
        objects = list(pool.map(compile_kernel, range(len(distinct))))
    return objects, [first + distinct.index(key) for key in keys]


def used_macros(text: str, op: Operator) -> set[str]:
    """The dtype and format macros that a preprocessed kernel tests or expands."""
    names = set(re.findall(r"^#(?:define|undef) (\w+)", text, re.MULTILINE))
    return names & set(op.macros(0))


def api_headers(text: str, folders: list[Path]) -> list[str]:
    """The API's headers that a preprocessed kernel includes, in their order, by their places in its folders."""
    found: dict[str, None] = {}
    for name in re.findall(r'^# \d+ "([^"]+)"', text, re.MULTILINE):
        folder = next((f for f in folders if Path(name).is_relative_to(f)), None)
        if folder is not None:
            found[str(Path(name).relative_to(folder))] = None
    return list(found)


def own_text(text: str, folders: list[Path]) -> str:
    """A preprocessed kernel without what the API's and the system's headers hold."""
    kept, keeps = [], True
    for line in text.splitlines():
        if match := re.match(r'# \d+ "([^"]+)"', line):
            name = Path(match[1])
            keeps = not any(name.is_relative_to(f) for f in (*folders, Path("/usr")))
        elif keeps:
            kept.append(line)
    return "\n".join(kept)


def system_headers(text: str, folders: list[Path]) -> list[str]:
    """The standard headers of a kernel's own files: inside its namespace they would declare a std of its own."""
    own = {m for m in re.findall(r'^# \d+ "([^"]+)"', text, re.MULTILINE) if not m.startswith(("/usr/", "<"))}
    sources = [Path(name) for name in own if Path(name).is_file()]
    sources = [file for file in sources if not any(file.is_relative_to(f) for f in folders)]
    lines = [line for file in sorted(sources) for line in file.read_text(errors="replace").splitlines()]
    found = [match[1] for line in lines if (match := re.match(r"\s*#\s*include\s*<([\w./]+)>", line))]
    return list(dict.fromkeys(found))


def compile_cores(build: Build) -> list[Path]:
    flags = [f"-I{folder}" for folder in (CORES, *build.include)]
    flags += ["-DTWIN_ANY_SOC"] if build.any_soc else []

    def compile_core(source: Path) -> Path:
        return build.compile(source, build.work / "cores" / f"{source.stem}.o", flags)

    with ThreadPoolExecutor(build.jobs) as pool:
        return list(pool.map(compile_core, sorted(CORES.glob("*.cpp"))))


def core_objects(build: Build) -> list[Path]:
    """Those that were compiled for all operators, where this one wants no others."""
    ready = build.cores.is_file() and not build.sanitize and not build.any_soc
    return [build.cores] if ready else compile_cores(build)


def make_cores(build: Build, target: Path) -> None:
    """One object of the cores, for the builds of many operators. It appears whole: several may be made at once."""
    made = build.work / target.name
    build.run([*build.compiler, "-r", "-nostdlib", *map(str, compile_cores(build)), "-o", str(made)])
    target.parent.mkdir(parents=True, exist_ok=True)
    arrived = target.with_name(f".{target.name}-{os.getpid()}")
    shutil.copyfile(made, arrived)
    arrived.rename(target)


def link_opapi(build: Build, host: list[Path], operators: list[Operator], tiling: list[dict[str, Any]]) -> Path:
    kernels: list[Path] = []
    pairs: list[Path] = []
    for op in operators:
        objects, column_objects = kernel_objects(build, op, tiling, len(kernels))
        kernels += objects
        source = build.work / "generated" / f"aclnn_{op.snake}.cpp"
        source.write_text(generate.pair(op, column_objects, op.snake))
        pairs.append(source)
    flags = [f"-I{CORES}", *build.api_includes]

    def compile_pair(source: Path) -> Path:
        return build.compile(source, source.with_suffix(".o"), flags)

    cores = core_objects(build)
    with ThreadPoolExecutor(build.jobs) as pool:
        cores += pool.map(compile_pair, pairs)
    library = build.work / "libcust_opapi.so"
    search = [f"-L{p}" for p in build.link]
    sanitizer = [] if build.sanitize else ["-Wl,--no-undefined"]
    build.run(
        [*build.compiler, "-shared", "-Wl,-soname,libcust_opapi.so", *sanitizer, *map(str, [*host, *kernels, *cores])]
        + [*search, "-lnnopbase", "-lascendcl", "-o", str(library)]
    )
    return library


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


def toolkit_version(home: Path) -> str:
    info = home / "version.info"
    match = re.search(r"^[Vv]ersion\s*=\s*(\S+)", info.read_text(), re.MULTILINE) if info.is_file() else None
    return match.group(1) if match else "unknown"


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="opbuild", description=__doc__)
    parser.add_argument("--op", type=Path, help="operator directory (op_host, op_kernel)")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--vendor")
    parser.add_argument("--soc", default="ascend910b", help="comma separated")
    parser.add_argument("--arch", default=host_platform.machine(), choices=SUPPORTED_ARCHS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--ascend-home", type=Path, required=True)
    parser.add_argument("--include", type=Path, action="append", default=[], help="more include directories")
    parser.add_argument(
        "--werror", action="store_true", help="warnings of op_host as C++11, and of kernels, are errors"
    )
    parser.add_argument("--any-soc", action="store_true", help="build for SoCs that the definition does not declare")
    parser.add_argument("--check-only", action="store_true", help="check the sources, and build nothing")
    parser.add_argument("--sanitize", default="", help="for tests: address,undefined")
    parser.add_argument("--make-cores", type=Path, metavar="FILE", help="build no operator, but the cores of all")
    parser.add_argument("--cores", type=Path, default=CORES_BUILT, metavar="FILE", help="what --make-cores has made")
    args = parser.parse_args(argv)
    if args.make_cores is None and (missing := [f"--{n}" for n in ("op", "out", "vendor") if not getattr(args, n)]):
        parser.error(f"an operator's build needs {', '.join(missing)}")
    return args


def main(argv: list[str] | None = None) -> int:
    args = arguments(argv)
    home = args.ascend_home.resolve()
    socs = args.soc.split(",")
    if unknown := sorted(set(socs) - set(KNOWN_SOCS)):
        print(f"opbuild: unknown soc {', '.join(unknown)}; known: {', '.join(KNOWN_SOCS)}", file=sys.stderr)
        return 2
    if args.arch != host_platform.machine():
        print(f"opbuild: cannot build for {args.arch} on {host_platform.machine()}", file=sys.stderr)
        return 2
    if args.cores != CORES_BUILT and not args.cores.is_file():
        print(f"opbuild: {args.cores} is not there; make it: opbuild.py --make-cores {args.cores}", file=sys.stderr)
        return 2
    try:
        cxx = host_compiler.find()
    except host_compiler.CompilerError as error:
        print(f"opbuild: {error}", file=sys.stderr)
        return 2
    if args.make_cores is None and address_spaces.compiler() is None:
        wanted = os.environ.get(address_spaces.COMPILER, "clang++")
        print(f"opbuild: kernels' address spaces are not checked: there is no {wanted} (apt-get install clang)")
    # In a checkout the headers stand beside this tool, in an installed toolkit under its include folder.
    beside = [p for p in (HERE.parent / "include", HERE.parent / "runtime/include") if p.is_dir()]
    with tempfile.TemporaryDirectory(prefix="opbuild-") as scratch:
        build = Build(
            op=(args.op or CORES).resolve(),
            out=(args.out or CORES).resolve(),
            vendor=args.vendor or "",
            socs=socs,
            arch=args.arch,
            jobs=max(1, args.jobs),
            ascend_home=home,
            include=[*beside, home / "include", *(p.resolve() for p in args.include)],  # the wheel ships a graph/ too
            link=[home / "lib64"],
            version=toolkit_version(home),
            work=Path(scratch),
            sanitize=args.sanitize,
            werror=args.werror,
            any_soc=args.any_soc,
            check_only=args.check_only,
            cores=args.cores.resolve(),
            cxx=cxx,
        )
        (build.work / "generated").mkdir()
        try:
            if args.make_cores:
                make_cores(build, args.make_cores.resolve())
                print(f"opbuild: the cores -> {args.make_cores}")
                return 0
            host, operators, tiling = describe(build)
            if not build.any_soc:
                check_socs(operators, build.socs)
            if build.check_only:
                for op in operators:
                    kernel_objects(build, op, tiling, 0)
                print(f"opbuild: {', '.join(op.type for op in operators)}: checked")
                return 0
            opapi = link_opapi(build, host, operators, tiling)
            root = lay_out(build, operators, opapi, host)
        except (BuildError, DefinitionError) as error:
            print(f"opbuild: {error}", file=sys.stderr)
            return 1
    print(f"opbuild: {', '.join(op.type for op in operators)} -> {root}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
