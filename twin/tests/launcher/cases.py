"""Case files: calls of an operator with the results that numpy computes for them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DATA_TYPES = {
    "float32": 0,
    "float16": 1,
    "int8": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 6,
    "int64": 9,
    "float64": 11,
    "bool": 12,
}
INPUT, INPUT_LIST, INT, INT_LIST, OUTPUT, REAL, TRUTH, TEXT, NO_INPUT, NO_OUTPUT, OUTPUT_LIST = range(11)
NEW_MEMORY = -1


@dataclass(frozen=True)
class Output:
    """The expected result. `compared` is false where only memory safety is asked for.

    tolerance: absolute and relative, for float32 that is not exact; its bits must be the same in every launch all the
    same. updates: the position among the arguments of the input whose memory this is.
    """

    array: np.ndarray
    compared: bool = True
    tolerance: float = 0.0
    updates: int = NEW_MEMORY


@dataclass(frozen=True)
class NoOutput:
    """An OPTIONAL output that is not asked for."""


@dataclass(frozen=True)
class Outputs:
    """The expected results of a DYNAMIC output."""

    arrays: Sequence[np.ndarray]
    tolerance: float = 0.0


# In the order of the aclnn call: inputs (a list for a DYNAMIC one, None where there is none), attributes, outputs.
Argument = (
    np.ndarray | list[np.ndarray] | int | float | bool | str | tuple[int, ...] | Output | Outputs | NoOutput | None
)


@dataclass(frozen=True)
class Case:
    name: str
    arguments: Sequence[Argument]
    refused: bool = False


def _number(value: int) -> bytes:
    return struct.pack("<q", value)


def _block(data: bytes) -> bytes:
    return _number(len(data)) + data


def _numbers(values: Sequence[int]) -> bytes:
    return _number(len(values)) + b"".join(map(_number, values))


def _tensor(array: np.ndarray, data: bool = True) -> bytes:
    code = DATA_TYPES[array.dtype.name]
    return _number(code) + _numbers(array.shape) + _block(array.tobytes() if data else b"")


def _real(value: float) -> bytes:
    return struct.pack("<d", value)


def _output(output: Output) -> bytes:
    assert output.tolerance == 0 or output.array.dtype == np.float32, "the launcher compares other types bit by bit"
    head = _number(OUTPUT) + _number(output.updates) + _real(output.tolerance)
    return head + _tensor(output.array, output.compared)


def _argument(argument: Argument) -> bytes:
    match argument:
        case None:
            return _number(NO_INPUT)
        case NoOutput():
            return _number(NO_OUTPUT)
        case Output():
            return _output(argument)
        case Outputs():
            tensors = b"".join(map(_tensor, argument.arrays))
            return _number(OUTPUT_LIST) + _real(argument.tolerance) + _number(len(argument.arrays)) + tensors
        case np.ndarray():
            return _number(INPUT) + _number(1) + _tensor(argument)
        case list():
            return _number(INPUT_LIST) + _number(len(argument)) + b"".join(map(_tensor, argument))
        case tuple():
            return _number(INT_LIST) + _numbers(argument)
        case bool():
            return _number(TRUTH) + _numbers([argument])
        case float():
            return _number(REAL) + _real(argument)
        case str():
            return _number(TEXT) + _block(argument.encode())
    return _number(INT) + _numbers([argument])


def write_cases(path: Path, op_type: str, cases: Sequence[Case]) -> Path:
    body = b"".join(
        _block(case.name.encode())
        + _number(case.refused)
        + _number(len(case.arguments))
        + b"".join(map(_argument, case.arguments))
        for case in cases
    )
    path.write_bytes(_block(op_type.encode()) + _number(len(cases)) + body)
    return path
