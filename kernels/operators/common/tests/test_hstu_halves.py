"""hstu_halves.h: whatever the size of a tile, the next one's scores are asked for when half of it is done."""

from __future__ import annotations

import ctypes
import math
import subprocess
from pathlib import Path

import pytest

COMMON = Path(__file__).resolve().parents[1]
UNIT = """#define __aicore__
#include "hstu_halves.h"
extern "C" int64_t Strip(int64_t rows, int64_t fits) { return hstu::RowsOfStrip(rows, fits); }
extern "C" int64_t Half(int64_t rows, int64_t atOnce) { return hstu::HalfOfStrips(rows, atOnce); }
"""


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("halves")
    (folder / "unit.cpp").write_text(UNIT)
    library = folder / "unit.so"
    command = ["g++", "-std=c++17", "-shared", "-fPIC", f"-I{COMMON}", str(folder / "unit.cpp"), "-o", str(library)]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))
    for function in (loaded.Strip, loaded.Half):
        function.argtypes, function.restype = [ctypes.c_int64, ctypes.c_int64], ctypes.c_int64
    return loaded


# Rows that fit: of 64, 128 and 512 columns in fp16 (184, 92, 23), in the backward pass (105, 52, 13), few, and all.
@pytest.mark.parametrize("fits", [1, 2, 13, 23, 52, 92, 105, 184, 512, 4095])
def test_a_tile_is_two_halves_of_equal_strips(halves: ctypes.CDLL, fits: int) -> None:
    for rows in range(2, 513):
        at_once = halves.Strip(rows, fits)
        half = halves.Half(rows, at_once)
        assert 1 <= at_once <= fits, rows
        # Half of it, but for what is left over in the last strips.
        assert half < rows and abs(2 * half - rows) <= 2 * at_once and half >= rows / 2, rows
        assert math.ceil(rows / at_once) <= math.ceil(rows / fits) + 1, rows


def test_a_single_row_is_one_strip(halves: ctypes.CDLL) -> None:
    assert (halves.Strip(1, 184), halves.Half(1, 1)) == (1, 1)
