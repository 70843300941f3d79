"""An operator's kernel, compiled once for each set of types that its source tells apart."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import address_spaces
import generate
import kernel_templates
import source_rules
from definition import DefinitionError, Operator
from kernel_templates import KernelTemplate
from operator_build import Build, BuildError

# Line tables, for the place where a kernel was stopped; a frame of 32 KiB is all the stack that a core has.
KERNEL_FLAGS = ("-g1", "-Wframe-larger-than=32768", "-Wno-unused-parameter")
# As in the vendor's own runs on a CPU: kernels leave out what only launches by <<<>>>.
CPU_MACROS = ("-D__CCE_KT_TEST__=1", "-DASCENDC_CPU_DEBUG=1", "-D__CCE_AICORE__=220", "-D__NPU_ARCH__=2201")
DIVISION_FLAG = "-fsanitize=integer-divide-by-zero"  # reported by cores/arithmetic.cpp


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
    build: Build, op: Operator, tiling: list[dict[str, Any]], templates: list[KernelTemplate], first: int
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
    template = kernel_templates.of_operator(templates, op)
    if template and len(template.structs) == 1:
        tiling_flags.append(f"-DTWIN_TILING_STRUCT={min(template.structs)}")
    columns = [op.macros(c) for c in range(op.combinations)]

    def flags(macros: dict[str, str]) -> list[str]:
        return [*CPU_MACROS, *tiling_flags, *(f"-D{k}={v}" for k, v in macros.items()), *build.api_includes]

    text = build.run([build.cxx, "-std=c++17", "-E", "-dU", *flags(columns[0]), str(kernel)])
    used = used_macros(text, op)
    entry_of = template_entries(op, template, text)
    if entry_of and template:
        used |= {f"DTYPE_{name.upper()}" for name in template.bound(op).values()}
    headers = generate.Headers(system_headers(text, build.include), api_headers(text, build.include))
    reopened = re.search(r"^\s*namespace\s+AscendC\b", own_text(text, build.include), re.MULTILINE) is not None
    keys = [tuple(sorted((k, v) for k, v in macros.items() if k in used)) for macros in columns]
    distinct = list(dict.fromkeys(keys))

    def compile_kernel(index: int) -> Path:
        number = first + index
        unit = generated / f"{op.snake}_{number}.cpp"
        column = keys.index(distinct[index])
        entry = entry_of(column) if entry_of else ""
        unit.write_text(generate.kernel_unit(op, str(kernel), headers, number, reopened, entry))
        extra = [f"-DTWIN_OBJECT={number}", *KERNEL_FLAGS]
        extra += [] if build.sanitize else [DIVISION_FLAG]
        extra += ["-Werror"] if build.werror else []
        macros = columns[column]
        check_address_spaces(build, unit, [extra[0], *flags(macros)])
        target = build.work / "kernel" / f"{op.snake}_{number}.o"
        return target if build.check_only else build.compile(unit, target, [*extra, *flags(macros)])

    with ThreadPoolExecutor(build.jobs) as pool:
        objects = list(pool.map(compile_kernel, range(len(distinct))))
    return objects, [first + distinct.index(key) for key in keys]


def template_entries(op: Operator, template: KernelTemplate | None, text: str) -> Callable[[int], str] | None:
    """What gives the entry of a column, where the kernel is a template."""
    parameters = kernel_templates.parameters_of_kernel(text, op)
    if parameters is None:
        return None
    if template is None:
        raise DefinitionError(
            f"{op.type}: op_kernel/{op.snake}.cpp is a template, and op_host includes no "
            f"ASCENDC_TPL_ARGS_DECL({op.type}, ..)"
        )
    if len(parameters) != len(template.declared):
        raise DefinitionError(
            f"{op.type}: op_kernel/{op.snake}.cpp has {len(parameters)} template parameters, "
            f"ASCENDC_TPL_ARGS_DECL({op.type}, ..) has {len(template.declared)}"
        )
    bound = template.bound(op)

    def entry(column: int) -> str:
        types = op.types(column)
        combinations = template.combinations({name: types[tensor] for name, tensor in bound.items()})
        return kernel_templates.entry(op, combinations, parameters, generate.arguments_of_kernel(op))

    return entry


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
