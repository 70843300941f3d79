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
INPUT, INPUT_LIST, INT, INT_LIST, OUTPUT = range(5)


@dataclass(frozen=True)
class Output:
    """The expected result. `compared` is false where only memory safety is asked for."""

    array: np.ndarray
    compared: bool = True


# In the order of the aclnn call: inputs (a list for a DYNAMIC one), attributes, outputs.
Argument = np.ndarray | list[np.ndarray] | int | tuple[int, ...] | Output


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


def _argument(argument: Argument) -> bytes:
    if isinstance(argument, Output):
        return _number(OUTPUT) + _number(1) + _tensor(argument.array, argument.compared)
    if isinstance(argument, np.ndarray):
        return _number(INPUT) + _number(1) + _tensor(argument)
    if isinstance(argument, list):
        return _number(INPUT_LIST) + _number(len(argument)) + b"".join(map(_tensor, argument))
    if isinstance(argument, tuple):
        return _number(INT_LIST) + _numbers(argument)
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
