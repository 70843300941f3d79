"""Kernels that are function templates: which combinations of their parameters are built, and the entry that calls them.

op_host's header of tiling keys (ASCENDC_TPL_ARGS_DECL, ASCENDC_TPL_SEL) says them; the dump program prints them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from definition import DATA_TYPES, DefinitionError, Operator

KERNEL_TYPES = (  # in the order of the header's enumerators
    "KERNEL_TYPE_AIV_ONLY",
    "KERNEL_TYPE_AIC_ONLY",
    "KERNEL_TYPE_MIX_AIV_1_0",
    "KERNEL_TYPE_MIX_AIC_1_0",
    "KERNEL_TYPE_MIX_AIC_1_1",
    "KERNEL_TYPE_MIX_AIC_1_2",
)
MOST = 4096  # combinations of an operator: a mistake in a range would be built for hours


@dataclass(frozen=True)
class Parameter:
    """Of a declaration with all its values, of a selection with those that are built."""

    name: str
    kind: str
    bits: int
    values: tuple[int, ...]
    side: str  # "inputs" or "outputs" whose data type it is, or nothing
    index: int


@dataclass(frozen=True)
class Combination:
    key: int
    values: tuple[int, ...]
    kernel_type: str


@dataclass(frozen=True)
class KernelTemplate:
    op: str
    declared: tuple[Parameter, ...]
    selections: tuple[tuple[Parameter, ...], ...]

    def bound(self, op: Operator) -> dict[str, str]:
        """Parameter -> the operator's input or output whose data type it is."""
        found = {}
        for parameter in self.declared:
            if parameter.side:
                tensors = getattr(op, parameter.side)
                if parameter.index >= len(tensors):
                    raise DefinitionError(
                        f"{op.type}: {parameter.name} is of number {parameter.index} of {len(tensors)} {parameter.side}"
                    )
                found[parameter.name] = tensors[parameter.index].name
        return found

    @property
    def structs(self) -> set[str]:
        return {p.name for selection in self.selections for p in selection if p.kind == "tiling_struct"}

    def combinations(self, types: Mapping[str, int | None]) -> list[Combination]:
        """Those whose bound parameters have these data types."""
        found: dict[int, Combination] = {}
        for selection in self.selections:
            chosen = {p.name: p.values for p in selection}
            kernel_type = next((KERNEL_TYPES[p.values[0]] for p in selection if p.kind == "kernel_type"), "")
            lists = [chosen.get(p.name, p.values) for p in self.declared]
            for values in product(*lists):
                if all(types.get(p.name, value) == value for p, value in zip(self.declared, values, strict=True)):
                    key = self._key(values)
                    found.setdefault(key, Combination(key, values, kernel_type))
                if len(found) > MOST:
                    raise DefinitionError(f"{self.op}: more than {MOST} combinations of template parameters are built")
        return list(found.values())

    def _key(self, values: Sequence[int]) -> int:
        """As KernelTemplate::Key of ascendc/host_api/tiling/template_argument.h."""
        key = shift = 0
        for parameter, value in zip(self.declared, values, strict=True):
            key |= parameter.values.index(value) << shift
            shift += parameter.bits
        return key


def parse(data: Sequence[dict[str, Any]]) -> list[KernelTemplate]:
    """One for each operator: several files of op_host may include its header."""
    found: dict[str, KernelTemplate] = {}
    for entry in data:
        declared = tuple(Parameter(**{**p, "values": tuple(p["values"])}) for p in entry["declared"])
        selections = tuple(
            tuple(Parameter(**{**p, "values": tuple(p["values"])}) for p in selection)
            for selection in entry["selections"]
        )
        template = KernelTemplate(entry["op"], declared, selections)
        if faults := list(_faults(template)):
            raise DefinitionError(f"{template.op}: " + "; ".join(faults))
        found[template.op] = template
    return list(found.values())


def _faults(template: KernelTemplate) -> Iterator[str]:
    declared = {p.name: p for p in template.declared}
    for p in template.declared:
        if not p.values:
            yield f"template parameter {p.name} has no values"
        elif len(p.values) > 1 << p.bits:
            yield f"template parameter {p.name} has {len(p.values)} values, {p.bits} bits hold {1 << p.bits}"
    if (bits := sum(p.bits for p in template.declared)) > 64:
        yield f"the template parameters take {bits} bits, a tiling key has 64"
    for number, selection in enumerate(template.selections):
        for p in selection:
            if p.kind == "kernel_type" and (len(p.values) != 1 or p.values[0] >= len(KERNEL_TYPES)):
                yield f"ASCENDC_TPL_ARGS_SEL number {number}: one kernel type of an Atlas A2"
            elif p.name and p.kind != "tiling_struct" and p.name not in declared:
                yield f"ASCENDC_TPL_ARGS_SEL number {number}: {p.name} is not declared"
            elif p.name in declared and (more := sorted(set(p.values) - set(declared[p.name].values))):
                yield f"ASCENDC_TPL_ARGS_SEL number {number}: {p.name} = {more[0]} is not declared"


def of_operator(templates: Sequence[KernelTemplate], op: Operator) -> KernelTemplate | None:
    return next((t for t in templates if t.op == op.type), None)


def parameters_of_kernel(text: str, op: Operator) -> list[str] | None:
    """The template parameters of an operator's kernel in its preprocessed source; None where it is no template."""
    head = rf"template\s*<((?:(?!\btemplate\b)[^{{}};])*?)>\s*(?:(?:inline|static)\s+)*void\s+{op.snake}\s*\("
    found = re.search(head, re.sub(r"^#.*$", "", text, flags=re.MULTILINE))
    return None if found is None else _split(found[1])


def _split(parameters: str) -> list[str]:
    depth, parts = 0, [""]
    for letter in parameters:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [" ".join(part.split()) for part in parts]


def entry(op: Operator, combinations: Sequence[Combination], parameters: Sequence[str], arguments: int) -> str:
    """The kernel's entry: it calls the instance that the tiling key names."""
    names = [f"a{i}" for i in range(arguments)]
    lines = [f'extern "C" __global__ __aicore__ void {op.snake}({", ".join(f"GM_ADDR {n}" for n in names)}) {{']
    for c in combinations:
        given = ", ".join(_argument(p, v) for p, v in zip(parameters, c.values, strict=True))
        if c.kernel_type:
            lines.append(f"  KERNEL_TASK_TYPE({c.key}ull, {c.kernel_type});")
        lines.append(f"  if (TILING_KEY_IS({c.key}ull)) return {op.snake}<{given}>({', '.join(names)});")
    return "\n".join([*lines, "}", ""])


def _argument(parameter: str, value: int) -> str:
    """A value as the argument of a parameter as it is written: `typename T`, `uint32_t MODE`, `bool SPLIT = true`."""
    written = parameter.split("=")[0].strip()
    if re.match(r"(typename|class)\b", written):
        if value not in DATA_TYPES:
            raise DefinitionError(f"template parameter {written}: {value} is no data type (C_DT_FLOAT and its like)")
        return DATA_TYPES[value][1]
    kind = re.sub(r"\s*\b\w+$", "", written) or written  # without the name, if it has one
    return str(value) if kind == "auto" else f"static_cast<{kind}>({value})"
