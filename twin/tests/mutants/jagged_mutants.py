"""Mutants of JaggedToPaddedDense and DenseToJagged and of the writer, offsets and host side that they share."""

from __future__ import annotations

from jagged_cases import TO_DENSE, TO_JAGGED
from mutant import COMPARISON, COMPILER, TIMEOUT, Edit, Mutant
from workshop import Operator

WRITER = "common/jagged_writer.h"
OFFSETS = "common/jagged_offsets.h"
SPLIT = "common/jagged_host.h"
DENSE = "jagged_to_padded_dense/op_kernel/jagged_to_padded_dense.cpp"
DENSE_HOST = "jagged_to_padded_dense/op_host/jagged_to_padded_dense.cpp"
JAGGED = "dense_to_jagged/op_kernel/dense_to_jagged.cpp"
JAGGED_HOST = "dense_to_jagged/op_host/dense_to_jagged.cpp"

FREE = "            queue_.FreeTensor(tile);\n"
PUSH = "            queue_.EnQue(tile);\n"
POP = "            tile = queue_.template DeQue<T>();\n"
ALLOC = "            AscendC::LocalTensor<T> tile = queue_.template AllocTensor<T>();\n"
STORE = "            AscendC::DataCopyPad(target_[targetStart_ + done], tile, burst);\n"
SET_FILL = "        AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(ready);\n"
WAIT_FILL = "        AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(ready);\n"
ODD = "AscendC::Duplicate<uint32_t>(lanes[at], high, odd, static_cast<uint8_t>(now), 1, 8);"
EVEN = "AscendC::Duplicate<uint32_t>(lanes[at], low, even, static_cast<uint8_t>(now), 1, 8);"
LIMITED_END = "first + (rest < tiling_.elementsPerCore ? rest : tiling_.elementsPerCore);"


def mutant(
    operator: Operator, name: str, fault: str, found_by: str, message: str, *edits: tuple[str, str, str]
) -> Mutant:
    prefix = "to_dense" if operator is TO_DENSE else "to_jagged"
    return Mutant(f"{prefix}_{name}", fault, operator, tuple(Edit(*e) for e in edits), found_by, message)


SYNCHRONISATION = [
    mutant(
        TO_DENSE,
        "store_before_load",
        "missing sync: the tile is stored without passing through the queue",
        "E-11",
        "by pipe MTE3 does not wait for the write by pipe MTE2",
        (WRITER, PUSH + POP, ""),
    ),
    mutant(
        TO_DENSE,
        "fill_stored_before_made",
        "missing sync: the block of padding is stored without V_MTE3",
        "E-11",
        "by pipe MTE3 does not wait for the write by pipe V",
        (WRITER, SET_FILL + WAIT_FILL, ""),
    ),
    mutant(
        TO_JAGGED,
        "flag_not_waited_for",
        "missing sync: V_MTE3 is set but not waited for",
        "E-11",
        "by pipe MTE3 does not wait for the write by pipe V",
        (WRITER, WAIT_FILL, ""),
    ),
    mutant(
        TO_JAGGED,
        "flag_not_set",
        "wrong sync: V_MTE3 is waited for but not set",
        "E-12",
        "waited for but never set",
        (WRITER, SET_FILL, ""),
    ),
    mutant(
        TO_JAGGED,
        "stores_overlap",
        "missing barrier: two stores of padding meet in 8 elements",
        "E-13",
        "is not ordered with the write",
        (
            WRITER,
            "AscendC::DataCopyPad(target_[targetStart_ + done], fill_, burst);\n            done += now;",
            "AscendC::DataCopyPad(target_[targetStart_ + done], fill_, burst);\n"
            "            done += done + now < count_ ? now - 8 : now;",
        ),
    ),
]

QUEUES = [
    mutant(
        TO_DENSE, "tensor_not_freed", "leaked queue slot", "E-06", "buffers of the queue are taken", (WRITER, FREE, "")
    ),
    mutant(
        TO_JAGGED,
        "last_tensor_not_freed",
        "leaked queue slot: a tensor is held at the end of the kernel",
        "E-34",
        "was not freed",
        (
            WRITER,
            FREE,
            "            if (done + now < count_) {\n                queue_.FreeTensor(tile);\n            }\n",
        ),
        (WRITER, "COPY_BUFFERS = 2", "COPY_BUFFERS = 2 + 6"),
        (SPLIT, "/ 2 / GM_ALIGNMENT", "/ 8 / GM_ALIGNMENT"),
    ),
    mutant(TO_DENSE, "freed_twice", "queue slot freed twice", "E-09", "is freed twice", (WRITER, FREE, FREE + FREE)),
    mutant(
        TO_JAGGED,
        "freed_before_store",
        "queue slot used after it was freed",
        "E-09",
        "after FreeTensor",
        (WRITER, STORE + FREE, FREE + STORE),
    ),
    mutant(TO_DENSE, "taken_twice", "DeQue twice for one EnQue", "E-08", "empty queue", (WRITER, POP, POP + POP)),
    mutant(
        TO_DENSE,
        "two_in_a_queue_of_one",
        "EnQue beyond the queue's depth",
        "E-07",
        "more than 1 tensors",
        (
            WRITER,
            PUSH,
            PUSH + "            AscendC::LocalTensor<T> other = queue_.template AllocTensor<T>();\n"
            "            queue_.EnQue(other);\n",
        ),
    ),
    mutant(
        TO_JAGGED,
        "too_many_buffers",
        "65 buffers in one pipe",
        "E-04",
        "more than 64 buffers",
        (WRITER, "queue_, COPY_BUFFERS, tileBytes", "queue_, 65, 1024"),
    ),
    mutant(
        TO_JAGGED,
        "nine_alive",
        "nine live buffers in one position",
        "E-05",
        "more than 8 live buffers",
        (WRITER, "queue_, COPY_BUFFERS, tileBytes", "queue_, 9, tileBytes / 5"),
        (
            WRITER,
            ALLOC,
            "            for (int i = 0; i < 8; ++i) {\n"
            "                queue_.template AllocTensor<T>();\n            }\n" + ALLOC,
        ),
    ),
]

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

TILING = [
    mutant(
        TO_DENSE,
        "total_of_values",
        "wrong tiling field: the elements of values instead of those of dense",
        COMPARISON,
        "wrong: byte",
        (DENSE_HOST, "totalElements = dense.GetShapeSize();", "totalElements = values.GetShapeSize();"),
    ),
    mutant(
        TO_DENSE,
        "first_length_for_last",
        "wrong tiling field: S1 is taken for SK",
        COMPARISON,
        "wrong: byte",
        (
            DENSE,
            "tiling_.maxLengths[tiling_.dims - 1] * tiling_.innerSize",
            "tiling_.maxLengths[0] * tiling_.innerSize",
        ),
    ),
    mutant(
        TO_DENSE,
        "rows_for_inner_size",
        "wrong tiling field: L instead of D",
        "host",
        "161002",
        (DENSE_HOST, "innerSize = values.GetDim(1);", "innerSize = values.GetDim(0);"),
    ),
    mutant(
        TO_JAGGED,
        "value_rows_doubled",
        "wrong tiling field: twice as many rows of values",
        "E-17",
        "of a GlobalTensor of",
        (
            JAGGED_HOST,
            "tiling->totalElements = values.GetShapeSize();",
            "tiling->totalElements = 2 * values.GetShapeSize();",
        ),
        (JAGGED, "static_cast<uint64_t>(tiling.totalElements));", "static_cast<uint64_t>(tiling.totalElements / 2));"),
    ),
    mutant(
        TO_DENSE,
        "padding_forgotten",
        "wrong tiling field: the padding is always zero",
        COMPARISON,
        "wrong: byte",
        (DENSE_HOST, "jagged::Repeated(static_cast<uint64_t>(*paddingBits), width);", "0;"),
    ),
    mutant(
        TO_DENSE,
        "share_of_half_the_cores",
        "wrong tiling field: the shares do not reach the end of the output",
        COMPARISON,
        "wrong: byte",
        (
            SPLIT,
            "context->SetBlockDim(static_cast<uint32_t>(std::max<int64_t>(1, blocks)));",
            "context->SetBlockDim(static_cast<uint32_t>(std::max<int64_t>(1, blocks / 2)));",
        ),
    ),
    mutant(
        TO_JAGGED,
        "no_blocks",
        "wrong tiling: a launch without blocks",
        "E-35",
        "blockDim 0",
        (
            SPLIT,
            "context->SetBlockDim(static_cast<uint32_t>(std::max<int64_t>(1, blocks)));",
            "context->SetBlockDim(0);",
        ),
    ),
    mutant(
        TO_DENSE,
        "key_of_half_the_width",
        "wrong tiling: the key of 1-byte elements for 2-byte ones",
        COMPARISON,
        "wrong: byte",
        (
            SPLIT,
            "context->SetTilingKey(static_cast<uint64_t>(width));",
            "context->SetTilingKey(static_cast<uint64_t>(width == 2 ? 1 : width));",
        ),
    ),
    mutant(
        TO_JAGGED,
        "unknown_key",
        "wrong tiling: a key that the kernel does not test",
        "host",
        "561003",
        (
            SPLIT,
            "context->SetTilingKey(static_cast<uint64_t>(width));",
            "context->SetTilingKey(static_cast<uint64_t>(width * 4));",
        ),
    ),
]

MUTANTS = [*SYNCHRONISATION, *QUEUES, *MEMORY, *SPLITS, *TILING]
