"""Mutants of Permute2dSparseData and Permute2dSparseDataGrad: moves of blocks, sums of repeated ones."""

from __future__ import annotations

from lookup_cases import PERMUTE, PERMUTE_GRAD
from mutant import COMPARISON, Edit, Mutant

KERNEL = "permute2d_sparse_data/op_kernel/permute2d_sparse_data.cpp"
BITS = "permute2d_sparse_data/op_kernel/length_bits.h"
HOST = "permute2d_sparse_data/op_host/permute2d_sparse_data.cpp"
GRAD_KERNEL = "permute2d_sparse_data/op_kernel/permute2d_sparse_data_grad.cpp"
GRAD_HOST = "permute2d_sparse_data/op_host/permute2d_sparse_data_grad.cpp"
WRONG = "wrong: byte"
STORE_LENGTHS = "            AscendC::DataCopyPad(target[static_cast<uint64_t>(start * tiling_.batch)], tile,\n"
STORE_SUMS = (
    "        AscendC::DataCopyPad(values_[static_cast<uint64_t>(row * tiling_.innerSize + at)], "
    "result, Burst(count));\n"
)


def move(name: str, fault: str, found_by: str, message: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(f"permute_{name}", fault, PERMUTE, tuple(Edit(*e) for e in edits), found_by, message)


def gradient(name: str, fault: str, found_by: str, message: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(f"permute_grad_{name}", fault, PERMUTE_GRAD, tuple(Edit(*e) for e in edits), found_by, message)


MOVES = [
    move(
        "lengths_stored_before_collected",
        "missing sync: a tile of lengths is stored without S_MTE3",
        "E-11",
        "by pipe MTE3 does not wait for the write by pipe S",
        (KERNEL, "            Fence<AscendC::HardEvent::S_MTE3>();\n", ""),
    ),
    move(
        "lengths_tile_reused",
        "missing sync: the next lengths are written over a tile that is still stored",
        "E-11",
        "by pipe S does not wait for the read by pipe MTE3",
        (KERNEL, "            Fence<AscendC::HardEvent::MTE3_S>();\n", ""),
    ),
    move(
        "batch_of_the_features",
        "wrong tiling field: T instead of B",
        "E-17",
        "is outside every tensor",
        (HOST, "tiling->batch = permute::RowElements(lengths);", "tiling->batch = lengths.GetDim(0);"),
    ),
    move(
        "weights_as_wide_as_values",
        "wrong tiling field: weights are moved with the row size of values",
        "E-17",
        "of a GlobalTensor of",
        (KERNEL, "MoveRows(tiling_.weightRowBytes)", "MoveRows(tiling_.valueRowBytes)"),
    ),
    move(
        "rows_beyond_the_lengths_left",
        "wrong tail: rows behind the last block are not written",
        COMPARISON,
        WRONG,
        (
            KERNEL,
            "        if (row < end) {                   // out_len is more than the lengths add up to\n",
            "        if (row > end) {\n",
        ),
    ),
    move(
        "last_run_not_flushed",
        "wrong tail: the last run of a share is not written",
        COMPARISON,
        WRONG,
        (KERNEL, "        MoveLengths();\n        writer_.Flush();\n", "        MoveLengths();\n"),
    ),
    move(
        "shares_overlap",
        "overlapping cores: shares of rows end one row late",
        "E-20",
        "is not ordered with the",
        (
            KERNEL,
            "permute::Smaller(row + tiling_.rowsPerCore, tiling_.outRows)",
            "permute::Smaller(row + tiling_.rowsPerCore + 1, tiling_.outRows)",
        ),
    ),
    move(
        "lengths_added",
        "wrong atomic: 64-bit lengths are added to the result",
        "E-30",
        "elements that have no atomic operation",
        (KERNEL, STORE_LENGTHS, "            AscendC::SetAtomicAdd<int32_t>();\n" + STORE_LENGTHS),
    ),
    move(
        "block_of_the_copy",
        "logic: the start of block p instead of block permute[p]",
        COMPARISON,
        WRONG,
        (KERNEL, "const int64_t from = in_.At(feature)", "const int64_t from = in_.At(copy % in_.Blocks())"),
    ),
    move(
        "bits_of_the_tile_before",
        "uninitialised read: what lies behind a tail of lengths is taken for lengths",
        "E-16",
        "were never written",
        (BITS, "    AscendC::Duplicate<uint16_t>(lanes, uint16_t(0), static_cast<int32_t>(LANES));\n", ""),
    ),
    move(
        "bits_not_waited_for",
        "missing sync: the scalar unit reads bits that the vector unit still collects",
        "E-11",
        "by pipe S does not wait for the write by pipe V",
        (BITS, "    Fence<AscendC::HardEvent::V_S>();\n", ""),
    ),
    move(
        "bits_of_one_lane_of_two",
        "logic: the upper halves of lengths are not collected",
        COMPARISON,
        WRONG,
        (BITS, "half >= BLOCK_LANES; half /= 2", "half > BLOCK_LANES; half /= 2"),
    ),
    move(
        "negative_lengths_are_sound",
        "missing check: the sign of the lengths' bits is not looked at",
        COMPARISON,
        WRONG,
        (BITS, "return bits < 0 || bits >= LONGEST;", "return bits >= LONGEST;"),
    ),
    move(
        "lengths_of_one_bag_looked_at",
        "wrong tiling field: T lengths are shared by the cores, not T * B",
        COMPARISON,
        WRONG,
        (HOST, "looks ? tiling->features * tiling->batch : 0", "looks ? tiling->features : 0"),
    ),
    move(
        "entries_not_told",
        "missing check: an entry of no feature gives zeros and no fault",
        COMPARISON,
        WRONG,
        (
            KERNEL,
            "    reporter_.Tell(fault::OUT_OF_RANGE, fault::PERMUTE_ENTRIES, copy, feature, tiling_.features);\n",
            "",
        ),
    ),
    move(
        "sums_not_compared",
        "missing check: the rows of the result are not compared with the sum of the lengths",
        COMPARISON,
        WRONG,
        (KERNEL, "} else if (copied != tiling_.outRows) {", "} else if (copied < 0) {"),
    ),
]

GRADIENTS = [
    gradient(
        "sum_not_cleared",
        "uninitialised read: copies are added to what the buffer held",
        "E-16",
        "were never written",
        (GRAD_KERNEL, "        AscendC::Duplicate<float>(sum, 0.0f, static_cast<int32_t>(count));\n", ""),
    ),
    gradient(
        "copy_not_waited_for",
        "missing sync: a copy is added without passing through the queue",
        "E-11",
        "by pipe V does not wait for the write by pipe MTE2",
        (GRAD_KERNEL, "        loaded_.EnQue(copy);\n        copy = loaded_.template DeQue<T>();\n", ""),
    ),
    gradient(
        "tile_of_sums_not_cut",
        "wrong tail: the last sums of a block are a full tile",
        "E-17",
        "of a GlobalTensor of",
        (
            GRAD_KERNEL,
            "const uint32_t count = static_cast<uint32_t>(permute::Smaller(left, tiling_.sumElements));",
            "const uint32_t count = left > 0 ? tiling_.sumElements : 0;",
        ),
    ),
    gradient(
        "rows_of_the_result_for_those_of_grad",
        "wrong tiling field: L instead of the rows of grad",
        COMPARISON,
        WRONG,
        (GRAD_HOST, "tiling->gradRows = grad.GetDim(0)", "tiling->gradRows = values.GetDim(0)"),
    ),
    gradient(
        "sums_added_to_the_result",
        "wrong atomic: sums are added to a result that nobody cleared",
        "E-21",
        "onto memory that nothing has initialised",
        (
            GRAD_KERNEL,
            STORE_SUMS,
            "        AscendC::SetAtomicAdd<T>();\n" + STORE_SUMS + "        AscendC::SetAtomicNone();\n",
        ),
    ),
    gradient(
        "positions_unsorted",
        "logic: the copies of a feature are looked up in the order of the sorted permutation",
        COMPARISON,
        WRONG,
        (GRAD_KERNEL, "const int64_t copy = order_.GetValue(static_cast<uint64_t>(at));", "const int64_t copy = at;"),
    ),
    gradient(
        "entries_below_zero_pass",
        "missing check: the least entry may be any",
        COMPARISON,
        WRONG,
        (GRAD_KERNEL, "LookAtEntry(0);", ""),
    ),
    gradient(
        "entries_beyond_the_features_pass",
        "missing check: the largest entry may be any",
        COMPARISON,
        WRONG,
        (GRAD_KERNEL, "LookAtEntry(tiling_.copies - 1);", ""),
    ),
    gradient(
        "rows_of_grad_pass",
        "missing check: grad has any number of rows",
        COMPARISON,
        WRONG,
        (GRAD_KERNEL, "if (permuted != tiling_.gradRows) {", "if (false) {"),
    ),
    gradient(
        "shares_overlap",
        "overlapping cores: shares begin one row early",
        "E-20",
        "is not ordered with the",
        (
            GRAD_KERNEL,
            "int64_t row = AscendC::GetBlockIdx() * tiling_.rowsPerCore;\n"
            "        const int64_t end = permute::Smaller(row + tiling_.rowsPerCore, tiling_.rows);\n",
            "int64_t row = AscendC::GetBlockIdx() * tiling_.rowsPerCore;\n"
            "        const int64_t end = permute::Smaller(row + tiling_.rowsPerCore, tiling_.rows);\n"
            "        row = permute::Larger(row - 1, 0);\n",
        ),
    ),
]

MUTANTS = [*MOVES, *GRADIENTS]
