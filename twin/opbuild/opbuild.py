"""Builds one Ascend C operator for the twin and lays out its vendor tree.

Knows no operator by name: everything follows from the OpDefs that op_host registers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform as host_platform
import re
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import address_spaces  # noqa: E402
import generate  # noqa: E402
import host_compiler  # noqa: E402
import kernel_templates  # noqa: E402
from definition import DefinitionError, Operator, check, check_socs, habits, parse  # noqa: E402
from kernel_objects import kernel_objects  # noqa: E402
from kernel_templates import KernelTemplate  # noqa: E402
from operator_build import CORES, CORES_BUILT, Build, BuildError  # noqa: E402
from vendor_tree import lay_out  # noqa: E402

DUMP = HERE / "templates" / "dump_definitions.cpp"
KNOWN_SOCS = ("ascend910b", "ascend910_93", "ascend310p")
SUPPORTED_ARCHS = ("x86_64", "aarch64")


def check_host_language(build: Build, source: Path) -> None:
    """The toolkit compiles op_host as C++11: what needs more builds here and not there."""
    flags = ["-std=c++11", "-Wall", "-Wextra", *(["-Werror"] if build.werror else [])]
    try:
        build.run([build.cxx, *flags, "-fsyntax-only", *build.api_includes, str(source)])
    except BuildError as error:
        raise BuildError(
            f"{source}: op_host is compiled as C++11 by the toolkit, and does not compile as that\n{error}"
        ) from None


@dataclass(frozen=True)
class Described:
    """What op_host registers."""

    operators: list[Operator]
    tiling: list[dict[str, Any]]  # classes of tiling data
    templates: list[KernelTemplate]


def describe(build: Build) -> tuple[list[Path], Described]:
    """Compile op_host, run the dump program on it. Returns the objects, and what they register."""
    sources = sorted((build.op / "op_host").glob("*.cpp"))
    if not sources:
        raise BuildError(f"{build.op}/op_host holds no .cpp file")

    def compile_host(source: Path) -> Path:
        if source != DUMP:
            check_host_language(build, source)
        return build.compile(source, build.work / "host" / f"{source.stem}.o", build.api_includes)

    dump = dump_beside(build.cores)
    ready = dump.is_file() and not build.sanitize
    with ThreadPoolExecutor(build.jobs) as pool:
        objects = list(pool.map(compile_host, sources if ready else [*sources, DUMP]))
    if not ready:
        dump = objects.pop()
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
    return objects, Described(operators, data["tiling_classes"], kernel_templates.parse(data["kernel_templates"]))


def warn_of_habits(build: Build, op: Operator) -> None:
    if not build.werror and (found := habits(op)):
        print(f"opbuild: warning: {op.type}: " + "; ".join(found), file=sys.stderr)


def compile_cores(build: Build) -> list[Path]:
    flags = [f"-I{folder}" for folder in (CORES, *build.include)]
    flags += ["-DTWIN_ANY_SOC"] if build.any_soc else []

    def compile_core(source: Path) -> Path:
        return build.compile(source, build.work / "cores" / f"{source.stem}.o", flags)

    with ThreadPoolExecutor(build.jobs) as pool:
        return list(pool.map(compile_core, sorted(CORES.rglob("*.cpp"))))


def core_objects(build: Build) -> list[Path]:
    """Those that were compiled for all operators, where this one wants no others."""
    ready = build.cores.is_file() and not build.sanitize and not build.any_soc
    return [build.cores] if ready else compile_cores(build)


def dump_beside(cores: Path) -> Path:
    """The compiled program that prints definitions; it comes with the cores, and is the same for all operators too."""
    return cores.with_name(f"{DUMP.stem}.o")


def make_cores(build: Build, target: Path) -> None:
    """One object of the cores, and `dump_beside` it, for the builds of many operators."""
    made = build.work / target.name
    build.run([*build.compiler, "-r", "-nostdlib", *map(str, compile_cores(build)), "-o", str(made)])
    dump = build.compile(DUMP, build.work / "host" / f"{DUMP.stem}.o", [f"-I{folder}" for folder in build.include])
    deliver(dump, dump_beside(target))
    deliver(made, target)


def deliver(made: Path, target: Path) -> None:
    """A file appears whole: several may be made at once."""
    target.parent.mkdir(parents=True, exist_ok=True)
    arrived = target.with_name(f".{target.name}-{os.getpid()}")
    shutil.copyfile(made, arrived)
    arrived.rename(target)


def link_opapi(build: Build, host: list[Path], described: Described) -> Path:
    kernels: list[Path] = []
    pairs: list[Path] = []
    for op in described.operators:
        objects, column_objects = kernel_objects(build, op, described.tiling, described.templates, len(kernels))
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
            host, described = describe(build)
            operators = described.operators
            if not build.any_soc:
                check_socs(operators, build.socs)
            if build.check_only:
                for op in operators:
                    kernel_objects(build, op, described.tiling, described.templates, 0)
                print(f"opbuild: {', '.join(op.type for op in operators)}: checked")
                return 0
            opapi = link_opapi(build, host, described)
            root = lay_out(build, operators, opapi, host)
        except (BuildError, DefinitionError) as error:
            print(f"opbuild: {error}", file=sys.stderr)
            return 1
    print(f"opbuild: {', '.join(op.type for op in operators)} -> {root}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
