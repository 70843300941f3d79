"""Compiles programs that launch one operator: its own sources, the simulated cores, and launcher.cpp."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
TWIN = HERE.parents[1]
OPERATORS = TWIN.parent / "kernels/operators"
CORES = TWIN / "cores"
RUNTIME = TWIN / "runtime"
IMAGE_LIB64 = "/usr/local/Ascend/ascend-toolkit/latest/lib64"
WARNINGS = ("-Wall", "-Wextra")
OF_HOST_SIDES = '#include "register/op_def_registry.h"\n#include "tiling/platform/platform_ascendc.h"\n'
OF_TABLES = '#include "opcall/opcall.h"\n'
STANDARD = ("algorithm", "atomic", "chrono", "condition_variable", "deque", "fstream", "functional", "map", "memory")
STANDARD += ("mutex", "optional", "set", "sstream", "string", "thread", "unordered_map", "vector")
OF_RUNTIME = "".join(f"#include <{name}>\n" for name in STANDARD)  # half of what compiling one of its files takes
OF_CORES = (  # compiled together: half of a file's time is what its neighbours' headers and templates take, too
    ("core", "cross_flags", "cube", "fiber", "scheduler", "watchdog"),
    ("memory", "gm_history", "l2_cache", "ub_shadow", "keys"),
    ("opcall", "opcall_arguments", "platform", "scalars", "views"),
    ("launch_plan", "output_shapes", "arithmetic", "bulk", "product"),
)
sys.path.insert(0, str(TWIN / "opbuild"))

import kernel_objects  # noqa: E402


@dataclass(frozen=True)
class Operator:
    """One kernel object: the macros are those of the dtype column that the cases use."""

    snake: str
    type: str
    parameters: int  # of the kernel's entry
    macros: dict[str, str] = field(hash=False)
    folder: str = ""  # below kernels/operators, where it is not named after the operator

    @property
    def home(self) -> str:
        return self.folder or self.snake


def lib64() -> Path:
    folder = Path(os.environ.get("TWIN_LIB64", IMAGE_LIB64))
    assert (folder / "libascendcl.so").is_file(), f"{folder} has no libascendcl.so; build recipes/twin, set TWIN_LIB64"
    return folder


def wheel_includes() -> list[str]:
    """The ACL and HCCL interface, from the headers in the torch_npu wheel."""
    spec = importlib.util.find_spec("torch_npu")
    assert spec is not None and spec.origin is not None, "no ACL headers: torch_npu is not installed"
    include = Path(spec.origin).parent / "include"
    folders = [include / "third_party/acl/inc", include / "third_party/hccl/inc", include]
    return [word for folder in folders for word in ("-isystem", str(folder))]


def compiled_together(folder: Path) -> list[list[str]]:
    """The groups in which the recipe compiles a library of the runtime."""
    return [
        group.split() for group in re.findall(r"compile_together\((.*?)\)", (folder / "CMakeLists.txt").read_text())
    ]


def table_unit(operator: Operator) -> str:
    """The table of kernels that launcher.cpp asks for: one object that serves every column."""
    entry = f"{operator.snake}__0"
    parameters = ", ".join(["void *"] * operator.parameters)
    values = ", ".join(f"a[{i}]" for i in range(operator.parameters))
    return f"""{OF_TABLES}
extern "C" void {entry}({parameters});

static void Enter(void *const *a) {{ {entry}({values}); }}

const twin::KernelTable &LaunchedKernels()
{{
    static const twin::KernelTable table{{
        "{operator.type}", std::vector<int>(64, 0), std::vector<twin::KernelEntry>(64, Enter)}};
    return table;
}}
"""


@dataclass
class Workshop:
    """Compiles into `folder`. With `own_runtime` libascendcl and libnnopbase are compiled in, else linked."""

    folder: Path
    flags: Sequence[str] = ("-O1", "-g")
    own_runtime: bool = False
    jobs: int = 2
    _cores: list[Path] = field(default_factory=list)
    _fixed: list[Path] = field(default_factory=list)
    _runtime: dict[str, list[Path]] = field(default_factory=dict)
    _headers: dict[str, Path] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def compile(self, source: Path, target: Path, extra: Sequence[str] = (), *, language: str = "c++") -> Path:
        compiler = shutil.which("g++")
        assert compiler is not None, "these tests need g++"
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [compiler, "-std=c++17", "-fPIC", "-DFUNC_VISIBILITY", *WARNINGS, *self.flags, *extra]
        command += ["-x", language, "-c", str(source), "-o", str(target)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return target

    def precompiled(self, includes: str, extra: Sequence[str]) -> list[str]:
        """Options to include `includes`, the larger part of compiling most units, as compiled once for all of them.

        The macros of an operator are not among `extra`: the twin's headers know none of them.
        """
        with self._lock:
            if includes not in self._headers:
                header = self.folder / f"headers/{len(self._headers)}.h"
                header.parent.mkdir(parents=True, exist_ok=True)
                header.write_text(includes)
                self.compile(header, header.with_name(f"{header.name}.gch"), extra, language="c++-header")
                self._headers[includes] = header
        return ["-Werror=invalid-pch", "-include", str(self._headers[includes])]

    def compile_all(
        self, sources: Sequence[Path], extra: Sequence[str], together: Sequence[Sequence[str]] = ()
    ) -> list[Path]:
        """Each of `sources`, those with the names of a group of `together` as one unit."""
        headers = self.precompiled(OF_RUNTIME, ())
        left = {source.stem: source for source in sources}
        units = []
        for group in together:
            unit = self.folder / "together" / left[group[0]].parent.name / f"{group[0]}.cpp"
            unit.parent.mkdir(parents=True, exist_ok=True)
            unit.write_text("".join(f'#include "{left.pop(name)}"\n' for name in group))
            units.append(unit)

        def one(source: Path) -> Path:
            return self.compile(source, self.folder / source.parent.name / f"{source.stem}.o", [*headers, *extra])

        with ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(one, [*units, *left.values()]))

    def link(self, objects: Sequence[Path], name: str) -> Path:
        program = self.folder / name
        libraries = [] if self.own_runtime else [f"-L{lib64()}", "-lnnopbase", "-lascendcl", f"-Wl,-rpath,{lib64()}"]
        command = ["g++", *self.flags, *map(str, objects), *libraries, "-pthread", "-ldl", "-o", str(program)]
        subprocess.run(command, check=True)
        return program

    def runtime_objects(self, parts: Sequence[str]) -> list[Path]:
        """Libraries of the runtime by folder, each compiled once."""
        for part in parts:
            if part not in self._runtime:
                sources = sorted((RUNTIME / part).glob("*.cpp"))
                folders = [f"-I{RUNTIME / 'include'}", *wheel_includes()]
                self._runtime[part] = self.compile_all(sources, folders, compiled_together(RUNTIME / part))
        return [file for part in parts for file in self._runtime[part]]

    def core_objects(self) -> list[Path]:
        """The simulated cores and the aclnn calls, with the runtime below them if asked for; compiled once, or by who
        built the libraries that are linked."""
        if not self._cores and not self.own_runtime and (built := lib64().parent / "tools/cores/cores.o").is_file():
            self._cores = [built]
        if not self._cores:
            self._cores = self.compile_all(sorted(CORES.rglob("*.cpp")), self._host_flags(), OF_CORES)
            if self.own_runtime:
                self._cores += self.runtime_objects(["acl", "nnopbase"])
        return self._cores

    def fixed_objects(self) -> list[Path]:
        """What every launcher shares."""
        if not self._fixed:
            self._fixed = self.compile_all([HERE / "launcher.cpp", HERE / "case_file.cpp"], self._host_flags())
            self._fixed += self.core_objects()
        return self._fixed

    def host_object(self, operator: Operator, tree: Path, target: Path) -> Path:
        source = tree / operator.home / "op_host" / f"{operator.snake}.cpp"
        folders = [f"-I{TWIN / 'include'}", f"-I{tree / 'common'}"]
        return self.compile(source, target, [*self.precompiled(OF_HOST_SIDES, folders[:1]), *folders])

    def kernel_object(self, operator: Operator, tree: Path, target: Path) -> Path:
        """The kernel as opbuild compiles it: inside a namespace, under a name of its own."""
        kernel = tree / operator.home / "op_kernel" / f"{operator.snake}.cpp"
        unit = target.with_suffix(".cpp")
        unit.parent.mkdir(parents=True, exist_ok=True)
        macros = [f"-D{k}={v}" for k, v in operator.macros.items()]
        folders = [f"-I{f}" for f in (kernel.parent, tree / "common", TWIN / "include")]
        command = ["g++", "-std=c++17", "-E", *macros, *folders, str(kernel)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        includes = "".join(f'#include "{header}"\n' for header in kernel_objects.api_headers(text, [TWIN / "include"]))
        unit.write_text(f'{includes}namespace kernel_object_{operator.snake}_0 {{\n#include "{kernel}"\n}}\n')
        own = ["-DTWIN_OBJECT=0", "-Wno-unused-parameter"]
        if not any(flag.startswith("-fsanitize") for flag in self.flags):
            own.append("-fsanitize=integer-divide-by-zero")
        headers = self.precompiled(includes, [*own, f"-I{TWIN / 'include'}"])
        name = f"-D{operator.snake}={operator.snake}__0"
        return self.compile(unit, target, [*headers, *own, name, *macros, *folders])

    def table_object(self, operator: Operator) -> Path:
        unit = self.folder / "tables" / f"{operator.snake}.cpp"
        unit.parent.mkdir(parents=True, exist_ok=True)
        unit.write_text(table_unit(operator))
        headers = self.precompiled(OF_TABLES, self._host_flags())
        return self.compile(unit, unit.with_suffix(".o"), [*headers, *self._host_flags()])

    def program(self, operator: Operator, tree: Path = OPERATORS) -> Path:
        """The launcher of an operator whose sources, and those it shares, lie under `tree`."""
        own = [
            self.host_object(operator, tree, self.folder / "host" / f"{operator.snake}.o"),
            self.kernel_object(operator, tree, self.folder / "kernel" / f"{operator.snake}.o"),
            self.table_object(operator),
        ]
        return self.link([*own, *self.fixed_objects()], f"launch_{operator.snake}")

    def _host_flags(self) -> list[str]:
        folders = [HERE, CORES, TWIN / "include", RUNTIME / "include"]
        return [*(f"-I{f}" for f in folders), *wheel_includes()]
