"""C++ written from an operator's definition: the aclnn pair, its header, the table of kernels, tiling structs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from definition import Operator

LIBRARY_TILINGS = (
    "TCubeTiling",
    "SoftMaxTiling",
    "LayerNormTiling",
    "RmsNormTiling",
    "LayerNormGradTiling",
    "LayerNormGradBetaTiling",
    "LayerNormSeparateTiling",
)  # those of library functions have their header


@dataclass(frozen=True)
class Headers:
    """What a kernel includes: of the standard library, and of the API."""

    system: Sequence[str]
    api: Sequence[str]


def signature(op: Operator, tensors: bool = False) -> str:
    """Phase one; `tensors`: the form that takes tensors for values that the tiling reads."""
    arguments = [f"{ctype}{name}" for ctype, name in op.arguments(tensors)]
    arguments += ["uint64_t *workspaceSize", "aclOpExecutor **executor"]
    return f"aclnnStatus aclnn{op.type}{'Tensor' if tensors else ''}GetWorkspaceSize(" + ", ".join(arguments) + ")"


def run_signature(op: Operator) -> str:
    return (
        f"aclnnStatus aclnn{op.type}(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, "
        "aclrtStream stream)"
    )


def header(op: Operator) -> str:
    guard = f"ACLNN_{op.snake.upper()}_H_"
    forms = "\n\n".join(f'__attribute__((visibility("default"))) {signature(op, t)};' for t in _forms(op))
    return f"""#ifndef {guard}
#define {guard}
#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {{
#endif

{forms}

__attribute__((visibility("default"))) {run_signature(op)};

#ifdef __cplusplus
}}
#endif

#endif
"""


def _forms(op: Operator) -> tuple[bool, ...]:
    return (False, True) if op.reads_values else (False,)


def phase_one(op: Operator, tensors: bool) -> str:
    calls = "\n".join(f"    call.{role}({name});" for role, name in op.handed_over())
    return f"""extern "C" __attribute__((visibility("default"))) {signature(op, tensors)}
{{
    twin::AclnnCall call("{op.type}", Kernels());
{calls}
    return call.Plan(workspaceSize, executor);
}}
"""


def arguments_of_kernel(op: Operator) -> int:
    shapes = any(p.shape_by_kernel for p in op.outputs)  # one more, for the shapes that the kernel writes
    return len(op.inputs) + len(op.outputs) + 2 + shapes


def pair(op: Operator, objects: Sequence[int], kernel_symbol: str) -> str:
    """The aclnn functions and the kernel table; column j is served by object objects[j]."""
    count = arguments_of_kernel(op)
    used = sorted(set(objects))
    void_list = ", ".join(["void *"] * count)
    declarations = "\n".join(f'extern "C" void {kernel_symbol}__{n}({void_list});' for n in used)
    values = ", ".join(f"a[{i}]" for i in range(count))
    entries = "\n".join(f"void Enter{n}(void *const *a) {{ {kernel_symbol}__{n}({values}); }}" for n in used)
    plans = "\n".join(phase_one(op, tensors) for tensors in _forms(op))
    return f"""#include "opcall/opcall.h"
#include "twin/executor.h"

{declarations}

namespace {{

{entries}

const twin::KernelTable &Kernels()
{{
    static const twin::KernelTable table{{
        "{op.type}",
        {{{", ".join(str(n) for n in objects)}}},
        {{{", ".join(f"Enter{n}" for n in objects)}}}}};
    return table;
}}

}}

{plans}
extern "C" __attribute__((visibility("default"))) {run_signature(op)}
{{
    return twinRunExecutor(executor, workspace, workspaceSize, stream);
}}
"""


def kernel_unit(
    op: Operator, kernel_file: str, headers: Headers, number: int, reopened: bool = False, entry: str = ""
) -> str:
    """One kernel object. The namespace keeps the objects of one operator apart, the entry's name is set by a macro.

    The headers that the kernel includes come first: inside the namespace they would declare an API of their own, and
    others would hide that an include is missing. So the macro does not rename what they declare either, as `exp`.
    `reopened`: the kernel adds to namespace AscendC, which then is one of its own with the API's names in it.
    `entry`: of a kernel that is a template.
    """
    includes = "".join(f"#if __has_include(<{h}>)\n#include <{h}>\n#endif\n" for h in headers.system)
    includes += "".join(f'#include "{h}"\n' for h in headers.api)
    api = "namespace AscendC {\nusing namespace ::AscendC;\n}\n" if reopened else ""
    return f"""{includes}#ifdef TWIN_TILING_HEADER
#include TWIN_TILING_HEADER
#endif
#define {op.snake} {op.snake}__{number}
namespace kernel_object_{op.snake}_{number} {{
{api}#include "{kernel_file}"
{entry}}}
"""


def tiling_structs(classes: Sequence[dict[str, Any]], default: str) -> str:
    """Plain structs for classes written with the tiling macros; nested ones stand first, aligned to 8 bytes."""
    nested = {f["type"] for c in classes for f in c["fields"] if f["nested"]}
    text = "#pragma once\n#include <cstdint>\n"
    seen: set[str] = set()
    for c in sorted(classes, key=lambda c: c["name"] not in nested):
        if c["name"] in seen:
            continue
        seen.add(c["name"])
        if c["name"] in LIBRARY_TILINGS:
            text += f'\n#include "kernel_tiling/kernel_tiling.h"\nusing AscendC::tiling::{c["name"]};\n'
            continue
        text += f"\nstruct alignas(8) {c['name']} {{\n"
        for f in c["fields"]:
            suffix = f"[{f['count']}]" if f["count"] else ""
            aligned = "alignas(8) " if f["nested"] else ""
            text += f"    {aligned}{f['type']} {f['name']}{suffix};\n"
        text += "};\n"
    return text + f"\nusing TwinDefaultTiling = {default};\n"
