"""Mutants that compute something else."""

from __future__ import annotations

from mutant import COMPARISON

from .sources import HOST, KERNEL, mutant

LOGIC = [
    mutant(
        "tail_as_long_as_a_tile",
        "wrong tail: the last tile is taken for a full one",
        "E-17",
        "of a GlobalTensor of",
        (
            KERNEL,
            "tile.columns = rest < tiling_.tileElements ? static_cast<uint32_t>(rest) : tiling_.tileElements;",
            "tile.columns = tiling_.tileElements;",
        ),
    ),
    mutant(
        "tail_lost_by_whole_blocks",
        "wrong tail: DataCopy moves whole blocks",
        "E-02",
        "loses its tail",
        (
            KERNEL,
            "AscendC::DataCopyPad(y_[tile.target], from,\n"
            "                             AscendC::DataCopyExtParams(1, elements * static_cast<uint32_t>(sizeof(T)), "
            "0, 0, 0));",
            "AscendC::DataCopy(y_[tile.target], from, elements);",
        ),
    ),
    mutant(
        "row_total_missing",
        "wrong tail: the total behind a row's last prefix is not written",
        COMPARISON,
        "wrong: byte",
        (
            KERNEL,
            "        tile.closes = from + tile.columns == tiling_.columns;",
            "        tile.closes = false;",
        ),
    ),
    mutant(
        "own_total_included",
        "logic: a part starts from the sum that includes its own total",
        COMPARISON,
        "wrong: byte",
        (KERNEL, "AddTotalsBefore(block - part, part, sum);", "AddTotalsBefore(block - part, part + 1, sum);"),
    ),
    mutant(
        "rows_run_on",
        "logic: the sum is not reset at the start of a row",
        COMPARISON,
        "wrong: byte",
        (KERNEL, "        tile.restarts = true;", "        tile.restarts = false;"),
    ),
    mutant(
        "other_tiling_class",
        "wrong tiling: the kernel's class has a field more than the host's",
        "E-31",
        "bytes, the host wrote",
        (
            KERNEL,
            "    GET_TILING_DATA(tilingData, tiling);\n",
            "    struct Grown : AsynchronousCompleteCumsumTilingData {\n        int64_t more;\n    };\n"
            "    GET_TILING_DATA_WITH_STRUCT(Grown, tilingData, tiling);\n",
        ),
    ),
    mutant(
        "columns_of_the_output",
        "wrong tiling field: the columns of y instead of those of x",
        "E-17",
        "is outside every tensor",
        (
            HOST,
            "    platform_ascendc::PlatformAscendC platform(",
            "    tiling->columns = y.GetDim(last);\n    platform_ascendc::PlatformAscendC platform(",
        ),
    ),
    mutant(
        "unknown_key",
        "wrong tiling: a key that the kernel does not test",
        "host",
        "561003",
        (HOST, "KEY_WHOLE_ROWS = 1;", "KEY_WHOLE_ROWS = 9;"),
    ),
    mutant(
        "chunk_too_short",
        "wrong tiling field: the parts of a row do not reach its end",
        COMPARISON,
        "wrong: byte",
        (
            HOST,
            "        const int64_t blocks = tiling->rows",
            "        tiling->chunk -= PART_ALIGNMENT;\n        const int64_t blocks = tiling->rows",
        ),
    ),
]
