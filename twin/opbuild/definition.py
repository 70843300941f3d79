"""Operator definitions as the dump program prints them."""

from __future__ import annotations

import keyword
import math
from dataclasses import dataclass
from typing import Any

from naming import lower_camel, snake_case

# ge::DataType code -> (enumerator, type in kernel source)
DATA_TYPES: dict[int, tuple[str, str]] = {
    0: ("DT_FLOAT", "float"),
    1: ("DT_FLOAT16", "half"),
    2: ("DT_INT8", "int8_t"),
    3: ("DT_INT32", "int32_t"),
    4: ("DT_UINT8", "uint8_t"),
    6: ("DT_INT16", "int16_t"),
    7: ("DT_UINT16", "uint16_t"),
    8: ("DT_UINT32", "uint32_t"),
    9: ("DT_INT64", "int64_t"),
    10: ("DT_UINT64", "uint64_t"),
    11: ("DT_DOUBLE", "double"),
    12: ("DT_BOOL", "bool"),
    16: ("DT_COMPLEX64", "complex64"),
    27: ("DT_BF16", "bfloat16_t"),
}
FORMATS = {0: "FORMAT_NCHW", 1: "FORMAT_NHWC", 2: "FORMAT_ND", 29: "FORMAT_FRACTAL_NZ"}
# Of inputs whose values the tiling reads: the array of an aclnn call, by the data types of all columns.
INT64 = 9
INTEGERS = frozenset({2, 3, 4, 6, 7, 8, INT64, 10})
VALUE_TYPES = {**dict.fromkeys(INTEGERS, "aclIntArray"), 0: "aclFloatArray", 12: "aclBoolArray"}
ATTRIBUTE_TYPES = {
    "bool": "bool ",
    "int": "int64_t ",
    "float": "double ",
    "string": "char *",
    "listBool": "const aclBoolArray *",
    "listInt": "const aclIntArray *",
    "listFloat": "const aclFloatArray *",
}


class DefinitionError(Exception):
    """The operator's OpDef breaks a rule of the description language."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    name: str
    option: str
    types: list[int]
    type_list: list[int]
    formats: list[int]
    format_list: list[int]
    value_depend: bool
    auto_contiguous: bool
    follow: str
    scalar: str = ""  # "one", "list", or nothing: a tensor
    shape_by_kernel: bool = False  # of an output: OutputShapeDependOnCompute


@dataclass(frozen=True, kw_only=True)
class Attribute:
    name: str
    option: str
    kind: str
    has_default: bool


@dataclass(frozen=True, kw_only=True)
class Operator:
    type: str
    inputs: list[Parameter]
    outputs: list[Parameter]
    attributes: list[Attribute]
    has_tiling: bool
    socs: list[str]

    @property
    def snake(self) -> str:
        return snake_case(self.type)

    @property
    def columns(self) -> int:
        """Combinations of data types as the definition writes them, beside those of DataTypeList."""
        return max([1, *(len(p.types) for p in [*self.inputs, *self.outputs])])

    @property
    def combinations(self) -> int:
        """Each column with each type of each DataTypeList: the last one's types follow each other."""
        return self.columns * math.prod(len(p.type_list) or 1 for p in [*self.inputs, *self.outputs])

    @property
    def reads_values(self) -> bool:
        return any(p.value_depend for p in self.inputs)

    @property
    def in_place(self) -> set[str]:
        """Names that an input and an output share: one argument of the call, which is read and written."""
        return {p.name for p in self.inputs} & {p.name for p in self.outputs}

    def arguments(self, tensors: bool = False) -> list[tuple[str, str]]:
        """(C type, C name): inputs, attributes, outputs; `tensors`: in the place of arrays of values."""
        result = [self._input(p, tensors) for p in self.inputs]
        for a in self.attributes:
            result.append((ATTRIBUTE_TYPES[a.kind], lower_camel(a.name) + _optional(a.option)))
        for p in self.outputs:
            if p.name not in self.in_place:
                result.append(("const aclTensorList *" if p.option == "dynamic" else "const aclTensor *", self._out(p)))
        return result

    def handed_over(self) -> list[tuple[str, str]]:
        """(role, C name) in the order of the definition; what is in place is an input and an output."""
        result = [("Input", self._input(p, False)[1]) for p in self.inputs]
        result += [("Attribute", lower_camel(a.name) + _optional(a.option)) for a in self.attributes]
        return [*result, *(("Output", self._out(p)) for p in self.outputs)]

    def _input(self, p: Parameter, tensors: bool) -> tuple[str, str]:
        if p.name in self.in_place:
            return "aclTensor *", f"{lower_camel(p.name)}Ref"
        return _input_type(p, tensors), lower_camel(p.name) + _optional(p.option)

    def _out(self, p: Parameter) -> str:
        if p.name in self.in_place:
            return f"{lower_camel(p.name)}Ref"
        return "out" if len(self.outputs) - len(self.in_place) == 1 else f"{lower_camel(p.name)}Out"

    def _places(self, combination: int) -> tuple[int, dict[str, int]]:
        """Its column, and the place in the DataTypeList of each parameter."""
        places, column = {}, combination
        for p in reversed([*self.inputs, *self.outputs]):
            column, places[p.name] = divmod(column, len(p.type_list) or 1)
        return column, places

    def types(self, combination: int) -> dict[str, int | None]:
        """Parameter -> its data type in one combination, where it has one."""
        column, places = self._places(combination)
        found: dict[str, int | None] = {}
        for p in [*self.inputs, *self.outputs]:
            code = p.types[column] if column < len(p.types) else None
            found[p.name] = p.type_list[places[p.name]] if p.type_list else code
        return found

    def macros(self, combination: int) -> dict[str, str]:
        """DTYPE_*, ORIG_DTYPE_* and FORMAT_* of one combination."""
        macros: dict[str, str] = {}
        column, _ = self._places(combination)
        types = self.types(combination)
        for p in [*self.inputs, *self.outputs]:
            upper = p.name.upper()
            code = types[p.name]
            if code is not None and code in DATA_TYPES:
                macros[f"ORIG_DTYPE_{upper}"], macros[f"DTYPE_{upper}"] = DATA_TYPES[code]
            form = p.formats[column] if column < len(p.formats) else 2
            macros[f"FORMAT_{upper}"] = FORMATS.get(form, "FORMAT_ND")
        return macros


def _optional(option: str) -> str:
    return "Optional" if option == "optional" else ""


def _input_type(p: Parameter, tensors: bool = False) -> str:
    if p.scalar:
        return "const aclScalar *" if p.scalar == "one" else "const aclScalarList *"
    if p.option == "dynamic":
        return "const aclTensorList *"
    if p.value_depend and not tensors:
        return f"const {VALUE_TYPES[p.types[0]]} *"
    return "const aclTensor *"


def parse(data: dict[str, Any], socs: list[str]) -> list[Operator]:
    """The operators as they are for `socs`: what AddConfig(soc, config) gives stands in the place of the rest."""
    return [
        Operator(
            type=entry["type"],
            inputs=_parameters(entry, socs, "inputs"),
            outputs=_parameters(entry, socs, "outputs"),
            attributes=[Attribute(**a) for a in entry["attributes"]],
            has_tiling=entry["has_tiling"],
            socs=entry["socs"],
        )
        for entry in data["operators"]
    ]


def _parameters(entry: dict[str, Any], socs: list[str], side: str) -> list[Parameter]:
    given = {override["soc"]: override[side] for override in entry["overrides"]}
    lists = [given.get(soc) or entry[side] for soc in socs]
    if any(other != lists[0] for other in lists):
        raise DefinitionError(
            f"{entry['type']}: the {side} differ between {', '.join(socs)} (AddConfig); "
            "build each with a --soc of its own"
        )
    return [Parameter(**p) for p in lists[0]]


def habits(op: Operator) -> list[str]:
    """What the toolkit's documentation rules out and its releases let pass: errors with --werror."""
    named: list[Parameter | Attribute] = [*op.inputs, *op.outputs, *op.attributes]
    found = [
        f"name '{p.name}' is not allowed"
        for p in named
        if keyword.iskeyword(p.name) or p.name in {"input", "max", "min"} or p.name != p.name.lower()
    ]
    return found + [
        f"attribute {a.name}: required with a default"
        for a in op.attributes
        if a.option == "required" and a.has_default
    ]


def _value_fault(p: Parameter) -> str:
    kinds = {VALUE_TYPES.get(code) for code in p.types}
    if len(kinds) != 1 or None in kinds:
        return "ValueDepend needs data types that are all integers, all FLOAT or all BOOL"
    if kinds == {"aclIntArray"} and INT64 not in p.types:
        return "ValueDepend of integers needs a column of INT64, the type of aclIntArray"
    if p.option == "dynamic":
        return "ValueDepend of a list of inputs is not built by the twin"
    return ""


def check(op: Operator, strict: bool = True) -> None:
    """Raise DefinitionError naming every rule of the toolkit that the definition breaks; `strict`: its habits too."""
    faults = habits(op) if strict else []
    parameters = [*op.inputs, *op.outputs]
    for p in parameters:
        if not p.types and not p.type_list and not p.follow:
            faults.append(f"{p.name}: no data types")
        if p.types and len(p.types) != op.columns:
            faults.append(f"{p.name}: {len(p.types)} data types, other parameters have {op.columns}")
        if p.formats and len(p.formats) != op.columns:
            faults.append(f"{p.name}: {len(p.formats)} formats for {op.columns} columns")
        if p.value_depend and (fault := _value_fault(p)):
            faults.append(f"{p.name}: {fault}")
        if p.type_list and (p.types or p.scalar or p.value_depend or p.name in op.in_place):
            faults.append(f"{p.name}: DataTypeList goes with tensors, without DataType, and not in place")
    faults += [f"{p.name}: OutputShapeDependOnCompute is for outputs" for p in op.inputs if p.shape_by_kernel]
    faults += [
        f"{p.name}: OutputShapeDependOnCompute of a list of outputs is not built by the twin"
        for p in op.outputs
        if p.shape_by_kernel and p.option == "dynamic"
    ]
    faults += [
        f"{p.name}: an input and output of one name (in place) are a required tensor without other marks"
        for p in parameters
        if p.name in op.in_place and (p.option != "required" or p.scalar or p.value_depend or p.shape_by_kernel)
    ]
    types = {p.name: p.types for p in op.outputs}
    faults += [
        f"{p.name}: the input and the output of that name have different data types"
        for p in op.inputs
        if p.name in op.in_place and p.types != types[p.name]
    ]
    for a in op.attributes:
        if a.kind not in ATTRIBUTE_TYPES:
            faults.append(f"attribute {a.name}: no type")
        if a.option == "optional" and not a.has_default:
            faults.append(f"attribute {a.name}: optional without a default")
    if not op.has_tiling:
        faults.append("no tiling function")
    if faults:
        raise DefinitionError(f"{op.type}: " + "; ".join(faults))


def check_socs(operators: list[Operator], asked: list[str]) -> None:
    """Raise DefinitionError for every SoC that is asked for and that a definition does not declare (AddConfig)."""
    faults = [
        f"{op.type} is to be built for {soc}, but its definition declares {', '.join(op.socs) or 'no SoC'}"
        for op in operators
        for soc in asked
        if soc not in op.socs
    ]
    if faults:
        raise DefinitionError("; ".join(faults))
