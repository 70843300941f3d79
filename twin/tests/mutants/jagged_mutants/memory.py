"""Mutants of addresses, lengths and what is written."""

from __future__ import annotations

from jagged_cases import TO_DENSE, TO_JAGGED
from mutant import COMPARISON, COMPILER

from .sources import DENSE, EVEN, JAGGED, ODD, OFFSETS, SPLIT, WRITER, mutant

MEMORY = [
    mutant(
        TO_DENSE,
        "tile_not_loaded",
        "uninitialised read: the tile is stored without having been loaded",
        "E-16",
        "were never written",
        (
            WRITER,
            "            AscendC::DataCopyPad(tile, source_[sourceStart_ + done], burst,\n"
            "                                 AscendC::DataCopyPadExtParams<T>(false, 0, 0, 0));\n",
            "",
        ),
    ),
    mutant(
        TO_DENSE,
        "half_of_the_fill",
        "uninitialised read: every second lane of the padding is left unset",
        "E-16",
        "were never written",
        (WRITER, "                " + ODD + "\n", ""),
    ),
    mutant(
        TO_DENSE,
        "fill_too_short",
        "uninitialised read: the padding is made for a quarter of its block",
        "E-16",
        "were never written",
        (
            WRITER,
            "static_cast<int32_t>(bytes / sizeof(uint32_t))",
            "static_cast<int32_t>(bytes / sizeof(uint32_t) / 4)",
        ),
    ),
    mutant(
        TO_JAGGED,
        "tile_misaligned",
        "misalignment: tiles are loaded one element into their buffer",
        "E-01",
        "is not aligned to 32 bytes",
        (WRITER, "AscendC::DataCopyPad(tile, source_", "AscendC::DataCopyPad(tile[1], source_"),
    ),
    mutant(
        TO_DENSE,
        "tiles_too_large",
        "overflow: two copy buffers and the padding exceed the unified buffer",
        "E-03",
        "do not fit the unified buffer",
        (SPLIT, "MAX_TILE_BYTES = 80 * 1024", "MAX_TILE_BYTES = 192 * 1024"),
        (SPLIT, "(ubBytes - FILL_BYTES) / 2 / GM_ALIGNMENT", "ubBytes / 2 / GM_ALIGNMENT"),
    ),
    mutant(
        TO_DENSE,
        "repeat_wraps",
        "overflow: 320 repeats in one instruction",
        "E-23",
        "repeatTime 320",
        (SPLIT, "FILL_BYTES = 16 * 1024", "FILL_BYTES = 80 * 1024"),
        (WRITER, "maxRepeats = 128", "maxRepeats = 512"),
        (WRITER, EVEN, EVEN.replace("static_cast<uint8_t>(now)", "now")),
    ),
    mutant(
        TO_DENSE,
        "repeat_cast_wraps",
        "overflow: 320 repeats are cast to 64, the rest of the padding stays unset",
        "E-16",
        "were never written",
        (SPLIT, "FILL_BYTES = 16 * 1024", "FILL_BYTES = 80 * 1024"),
        (WRITER, "maxRepeats = 128", "maxRepeats = 512"),
    ),
    mutant(
        TO_DENSE,
        "mask_of_too_many_lanes",
        "wrong mask: lanes 64 and up of 4-byte elements",
        "E-24",
        "mask names lanes beyond 64",
        (WRITER, "even[2] = {0x5555555555555555ULL, 0}", "even[2] = {0x5555555555555555ULL, 0x5555555555555555ULL}"),
    ),
    mutant(
        TO_DENSE,
        "stride_zero",
        "wrong stride: all blocks of a repeat go to one place",
        "E-25",
        "dstBlkStride must not be 0",
        (WRITER, EVEN, EVEN.replace(", 1, 8)", ", 0, 8)")),
    ),
    mutant(
        TO_DENSE,
        "stride_past_buffer",
        "overflow: repeats of 288 bytes leave the padding's buffer",
        "E-25",
        "is outside the buffer",
        (WRITER, EVEN, EVEN.replace(", 1, 8)", ", 1, 9)")),
    ),
    mutant(
        TO_DENSE,
        "vector_past_buffer",
        "overflow: four times as many lanes as the padding's block holds",
        "E-25",
        "is outside the buffer",
        (WRITER, "static_cast<int32_t>(bytes / sizeof(uint32_t))", "static_cast<int32_t>(bytes)"),
    ),
    mutant(
        TO_DENSE,
        "wrong_list_member",
        "out of range: the offsets of one level further",
        "E-17",
        "of a list of",
        (OFFSETS, "tensors.GetDataPtr<Offset>(k)", "tensors.GetDataPtr<Offset>(k + 1)"),
    ),
    mutant(
        TO_DENSE,
        "offsets_not_clamped",
        "out of range: wrong offsets are believed",
        "E-17",
        "of a GlobalTensor of",
        (OFFSETS, "return value < 0 ? 0 : (value > rows_[level] ? rows_[level] : value);", "return value;"),
    ),
    mutant(
        TO_DENSE,
        "end_of_next_row",
        "out of range: a row's end is read one entry too far",
        "E-17",
        "of a GlobalTensor of",
        (OFFSETS, "span.end = At(level, node + 1);", "span.end = At(level, node + 2);"),
    ),
    mutant(
        TO_DENSE,
        "input_overwritten",
        "out of range: the result goes to the input",
        "E-17",
        "inside the input values",
        (
            DENSE,
            "target.SetGlobalBuffer(reinterpret_cast<__gm__ T *>(dense)",
            "target.SetGlobalBuffer(reinterpret_cast<__gm__ T *>(values)",
        ),
    ),
    mutant(
        TO_JAGGED,
        "cells_of_next_line",
        "logic: rows beyond the longest are copied, from the next line's cells",
        COMPARISON,
        "wrong: byte",
        (
            JAGGED,
            "        if (line < 0 || step >= tiling_.maxLengths[last_]) {\n"
            "            return FillTo(at, nodeEnd, end);\n        }\n",
            "",
        ),
        (JAGGED, "copyEnd = stored < nodeEnd ? stored : nodeEnd;", "copyEnd = nodeEnd;"),
    ),
    mutant(
        TO_JAGGED,
        "unsupported_type",
        "wrong type: Duplicate of 8-byte elements",
        COMPILER,
        "E-30: Duplicate does not take this type",
        (
            WRITER,
            "    __aicore__ inline void FlushFill()\n    {\n",
            "    __aicore__ inline void FlushFill()\n    {\n"
            "        AscendC::Duplicate<uint64_t>(fillBuffer_.template Get<uint64_t>(), 0, 4);\n",
        ),
    ),
]
