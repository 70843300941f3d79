"""Mutants of BoundsCheckIndices: three meetings, repairs in place, extremes of a tile on the vector unit."""

from __future__ import annotations

from lookup_cases import BOUNDS
from mutant import COMPARISON, Edit, Mutant

KERNEL = "bounds_check_indices/op_kernel/bounds_check_indices.cpp"
LIMITS = "bounds_check_indices/op_kernel/index_limits.h"
BOARD = "bounds_check_indices/op_kernel/violations.h"
HOST = "bounds_check_indices/op_host/bounds_check_indices.cpp"
WRONG = "wrong: byte"
FILL = "        AscendC::Duplicate<int32_t>(words[(repeats - 1) * LANES], -1, static_cast<int32_t>(LANES));\n"
STORE_WARNING = "            AscendC::DataCopyPad(warning_, words,"


def mutant(name: str, fault: str, found_by: str, message: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(f"bounds_{name}", fault, BOUNDS, tuple(Edit(*e) for e in edits), found_by, message)


MUTANTS = [
    mutant(
        "no_meeting",
        "missing SyncAll: records are read while others write them",
        "E-18",
        "is not ordered with",
        (BOARD, "        AscendC::SyncAll();\n", ""),
    ),
    mutant(
        "first_meeting_left_out",
        "missing meeting: the scan goes on from records that have not been exchanged",
        "E-16",
        "were never written",
        (
            KERNEL,
            "        board_.Meet(found);                // nobody writes an offset before all have read theirs\n",
            "",
        ),
    ),
    mutant(
        "offsets_stored_before_repaired",
        "missing sync: repaired offsets are stored without S_MTE3",
        "E-11",
        "by pipe MTE3 does not wait for the write by pipe S",
        (
            KERNEL,
            "    {\n        bounds::Fence<AscendC::HardEvent::S_MTE3>();\n"
            "        StoreOffsetsNow(first, tile, count);\n",
            "    {\n        StoreOffsetsNow(first, tile, count);\n",
        ),
    ),
    mutant(
        "extremes_not_waited_for",
        "missing sync: the scalar unit reads extremes that the vector unit still makes",
        "E-11",
        "by pipe S does not wait for the write by pipe V",
        (LIMITS, "        Fence<AscendC::HardEvent::V_S>();\n", ""),
    ),
    mutant(
        "lanes_behind_the_tail",
        "wrong tail: the lanes behind the last index are not filled",
        "E-16",
        "were never written",
        (LIMITS, FILL, ""),
    ),
    mutant(
        "tile_not_cut",
        "wrong tail: the tile at the end of a table is a full one",
        "E-17",
        "of a GlobalTensor of",
        (
            KERNEL,
            "const uint32_t count = static_cast<uint32_t>(bounds::Smaller(stop - at, tiling_.indexTile));",
            "const uint32_t count = at < stop ? tiling_.indexTile : 0;",
        ),
    ),
    mutant(
        "workspace_of_one_meeting",
        "wrong tiling: the workspace holds the records of one meeting",
        "E-17",
        "is outside every tensor",
        (HOST, "MEETINGS * static_cast<std::size_t>(blocks)", "static_cast<std::size_t>(blocks)"),
    ),
    mutant(
        "batch_of_the_bags",
        "wrong tiling field: T * B bags for every table",
        "E-17",
        "of a GlobalTensor of",
        (HOST, ": tiling->bags / tiling->tables;", ": tiling->bags;"),
    ),
    mutant(
        "meeting_without_batch_mode",
        "wrong tiling: the blocks are not started together",
        "E-22",
        "SetScheduleMode",
        (HOST, "    context->SetScheduleMode(BATCH_MODE);\n", ""),
    ),
    mutant(
        "warning_added",
        "wrong atomic: the 64-bit count is added to what warning held",
        "E-30",
        "elements that have no atomic operation",
        (KERNEL, STORE_WARNING, "            AscendC::SetAtomicAdd<int32_t>();\n" + STORE_WARNING),
    ),
    mutant(
        "saturated_indices_believed",
        "logic: indices beyond 32 bits saturate and are taken for rows of a long table",
        COMPARISON,
        WRONG,
        (LIMITS, "        return !doubtful && smallest", "        return smallest"),
    ),
    mutant(
        "batches_start_anywhere",
        "missing check: the first entry of b_offsets may be any",
        COMPARISON,
        WRONG,
        (KERNEL, "if (block == 0 && before != 0) {", "if (block == 0 && before < 0) {"),
    ),
    mutant(
        "batches_decrease",
        "missing check: entries of b_offsets are compared with the first one",
        COMPARISON,
        WRONG,
        (KERNEL, "      before = next;\n", "      before = next > before ? before : next;\n"),
    ),
    mutant(
        "batches_end_anywhere",
        "missing check: the last entry of b_offsets is not compared with the bags",
        COMPARISON,
        WRONG,
        (KERNEL, "before != tiling_.bags", "before > tiling_.bags"),
    ),
]
