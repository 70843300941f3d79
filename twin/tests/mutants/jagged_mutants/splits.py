"""Mutants of how work is split between cores and tiles."""

from __future__ import annotations

from jagged_cases import TO_DENSE, TO_JAGGED
from mutant import COMPARISON, TIMEOUT

from .sources import DENSE, JAGGED, LIMITED_END, STORE, WRITER, mutant

SPLITS = [
    mutant(
        TO_DENSE,
        "shares_overlap",
        "overlapping cores: shares begin 8 elements early",
        "E-20",
        "is not ordered with the",
        (
            DENSE,
            "first = AscendC::GetBlockIdx() * tiling_.elementsPerCore;",
            "first = AscendC::GetBlockIdx() * (tiling_.elementsPerCore - 8);",
        ),
    ),
    mutant(
        TO_JAGGED,
        "share_one_too_long",
        "overlapping cores: shares end one element late",
        "E-20",
        "is not ordered with the",
        (JAGGED, LIMITED_END, "first + (rest < tiling_.elementsPerCore + 1 ? rest : tiling_.elementsPerCore + 1);"),
    ),
    mutant(
        TO_DENSE,
        "last_share_not_cut",
        "wrong tail: the last share is as long as the others",
        "E-17",
        "of a GlobalTensor of",
        (DENSE, LIMITED_END, "rest < 0 ? first : first + tiling_.elementsPerCore;"),
    ),
    mutant(
        TO_JAGGED,
        "last_tile_not_cut",
        "wrong tail: the last copy of a run is a full tile",
        "E-17",
        "of a GlobalTensor of",
        (
            WRITER,
            "left < tileElements_ ? static_cast<uint32_t>(left) : tileElements_",
            "left < 0 ? static_cast<uint32_t>(left) : tileElements_",
        ),
    ),
    mutant(
        TO_DENSE,
        "tail_lost_by_whole_blocks",
        "wrong tail: DataCopy moves whole blocks",
        "E-02",
        "loses its tail",
        (WRITER, STORE, "            AscendC::DataCopy(target_[targetStart_ + done], tile, now);\n"),
    ),
    mutant(
        TO_DENSE,
        "last_run_not_flushed",
        "wrong tail: the last run of a share is not written",
        COMPARISON,
        "wrong: byte",
        (DENSE, "        writer_.Flush();\n", ""),
    ),
    mutant(
        TO_JAGGED,
        "runs_merged_by_target",
        "logic: runs that touch in the output but not in the input are merged",
        COMPARISON,
        "wrong: byte",
        (
            WRITER,
            "target == targetStart_ + count_ && source == sourceStart_ + count_",
            "target == targetStart_ + count_",
        ),
    ),
    mutant(
        TO_JAGGED,
        "row_of_next_node",
        "logic: a node's first row is looked up in the node before",
        COMPARISON,
        "wrong: byte",
        (JAGGED, "tree_.At(level, node + 1) <= row", "tree_.At(level, node + 1) < row"),
    ),
    mutant(
        TO_DENSE,
        "line_in_16_bits",
        "overflow: the start of a line in 16 bits takes the walk back to an earlier line for ever",
        TIMEOUT,
        "the kernel did not end within",
        (DENSE, "lineStart = line * lineElements;", "lineStart = static_cast<uint16_t>(line * lineElements);"),
    ),
    mutant(
        TO_JAGGED,
        "walk_without_progress",
        "endless loop: rows behind the last offset stop the walk over the nodes",
        TIMEOUT,
        "the kernel did not end within",
        (JAGGED, "            return FillTo(at, end, end);", "            return at;"),
    ),
    mutant(
        TO_JAGGED,
        "empty_loop",
        "endless loop that makes no call",
        TIMEOUT,
        "then no call, at ",
        (
            WRITER,
            "        MakeFill(fillBytes, fillPattern);\n",
            "        MakeFill(fillBytes, fillPattern);\n        volatile bool ready = false;\n"
            "        while (!ready) {\n        }\n",
        ),
    ),
    mutant(
        TO_DENSE,
        "offsets_of_other_type",
        "wrong type: 64-bit offsets are read as 32-bit ones",
        COMPARISON,
        "wrong: byte",
        (DENSE, "JaggedToPaddedDenseKernel<T, DTYPE_OFFSETS> kernel;", "JaggedToPaddedDenseKernel<T, int32_t> kernel;"),
    ),
]
