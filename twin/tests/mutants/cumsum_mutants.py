"""Mutants of AsynchronousCompleteCumsum: flags of its own, a meeting of the cores, workspace."""

from __future__ import annotations

from jagged_cases import CUMSUM
from mutant import COMPARISON, COMPILER, Edit, Mutant

KERNEL = "asynchronous_complete_cumsum/op_kernel/asynchronous_complete_cumsum.cpp"
TILE = "asynchronous_complete_cumsum/op_kernel/scan_tile.h"
HOST = "asynchronous_complete_cumsum/op_host/asynchronous_complete_cumsum.cpp"
STORE_SLOT = (
    "        AscendC::DataCopyPad(totals_[block * SLOT_BYTES], slot, "
    "AscendC::DataCopyExtParams(1, SLOT_BYTES, 0, 0, 0));\n"
)
SLOT = "        AscendC::LocalTensor<uint8_t> slot = slots_.Get<uint8_t>();\n"
TOTALS_32 = (
    "        AscendC::GlobalTensor<int32_t> totals32;\n"
    "        totals32.SetGlobalBuffer("
    "reinterpret_cast<__gm__ int32_t *>(const_cast<uint8_t *>(totals_.GetPhyAddr())));\n"
)
SCAN = "        ScanRows(in, out, tile, sum);\n"


def mutant(name: str, fault: str, found_by: str, message: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(f"cumsum_{name}", fault, CUMSUM, tuple(Edit(*e) for e in edits), found_by, message)


SYNCHRONISATION = [
    mutant(
        "store_before_scalar",
        "missing sync: the scan's results are stored without S_MTE3",
        "E-11",
        "read of UB",
        (TILE, SCAN + "        Fence<AscendC::HardEvent::S_MTE3>();\n", SCAN),
    ),
    mutant(
        "totals_read_before_load",
        "missing sync: the other parts' totals are read without MTE2_S",
        "E-11",
        "by pipe S does not wait for the write by pipe MTE2",
        (KERNEL, "        Fence<AscendC::HardEvent::MTE2_S>();\n", ""),
    ),
    mutant(
        "total_saved_before_clear",
        "missing sync: the slot is written by S while V still clears it",
        "E-11",
        "by pipe S does not wait for the write by pipe V",
        (KERNEL, "        Fence<AscendC::HardEvent::V_S>();\n", ""),
    ),
    mutant(
        "slot_stored_before_saved",
        "missing sync: the slot is stored without S_MTE3",
        "E-11",
        "by pipe MTE3 does not wait for the write by pipe S",
        (KERNEL, "        Fence<AscendC::HardEvent::S_MTE3>();\n", ""),
    ),
    mutant(
        "input_reused",
        "missing sync: the next tile is loaded over one that is still read",
        "E-11",
        "write of UB",
        (KERNEL, "                inputFree.Wait(slot);\n", ""),
        (KERNEL, "                inputFree.Set(slot);\n", ""),
    ),
    mutant(
        "output_reused",
        "missing sync: the next results overwrite a tile that is still stored",
        "E-11",
        "by pipe S does not wait for the read by pipe MTE3",
        (KERNEL, "                    outputFree.Wait(slot);\n", ""),
        (KERNEL, "                    outputFree.Set(slot);\n", ""),
    ),
    mutant(
        "flag_of_other_pipes",
        "wrong sync: the tile's arrival is flagged to V, the scalar unit reads it",
        "E-11",
        "does not wait for the write by pipe MTE2",
        (
            TILE,
            "LOADED = AscendC::HardEvent::MTE2_S;\n    static constexpr AscendC::HardEvent INPUT_FREE = "
            "AscendC::HardEvent::S_MTE2",
            "LOADED = AscendC::HardEvent::MTE2_V;\n    static constexpr AscendC::HardEvent INPUT_FREE = "
            "AscendC::HardEvent::V_MTE2",
        ),
    ),
    mutant(
        "wait_without_set",
        "wrong sync: a slot's flag is waited for but never set",
        "E-12",
        "waited for but never set",
        (KERNEL, "                loaded.Set(slot);\n", ""),
    ),
    mutant(
        "flag_left_over",
        "wrong sync: flags of free slots are still up at the end",
        "E-12",
        "set",
        (KERNEL, "inputFree.CloseRaised(pipe_)", "inputFree.Close(pipe_)"),
    ),
    mutant(
        "one_flag_for_two_slots",
        "wrong sync: both slots use one event id",
        "E-12",
        "is set twice",
        (TILE, "AscendC::SetFlag<event>(id_[slot])", "AscendC::SetFlag<event>(id_[0])"),
    ),
    mutant(
        "event_not_released",
        "leak: the ids of the loads are not released",
        "E-10",
        "was allocated but not released",
        (KERNEL, "        loaded.Close(pipe_);\n", ""),
    ),
]

BETWEEN_CORES = [
    mutant(
        "no_meeting",
        "missing SyncAll: totals are read while others write them",
        "E-20",
        "is not ordered with",
        (KERNEL, "        AscendC::SyncAll();\n", ""),
    ),
    mutant(
        "meeting_before_store_ends",
        "missing barrier: the total may still be on its way when the cores meet",
        "E-20",
        "is not ordered with",
        (
            KERNEL,
            "        AscendC::PipeBarrier<PIPE_ALL>();\n        AscendC::SyncAll();",
            "        AscendC::SyncAll();",
        ),
    ),
    mutant(
        "meeting_of_some",
        "unmatched SyncAll: the first core does not come",
        "E-33",
        "which this block never reached",
        (
            KERNEL,
            "        AscendC::SyncAll();",
            "        if (block != 0) {\n            AscendC::SyncAll();\n        }",
        ),
    ),
    mutant(
        "meeting_per_tile",
        "unmatched SyncAll: once for each tile, and parts have different numbers of tiles",
        "E-33",
        "which this block never reached",
        (
            KERNEL,
            "                    worker_.Total(in, tile, sum);\n",
            "                    worker_.Total(in, tile, sum);\n                    AscendC::SyncAll();\n",
        ),
    ),
    mutant(
        "meeting_of_both_kinds",
        "wrong SyncAll: it waits for cube cores that the kernel does not have",
        "E-33",
        "without a cube side",
        (KERNEL, "AscendC::SyncAll();", "AscendC::SyncAll<false>();"),
    ),
    mutant(
        "meeting_in_vector_only_kernel",
        "wrong kernel type: SyncAll without MIX",
        "E-33",
        "needs a MIX kernel type",
        (KERNEL, "KERNEL_TASK_TYPE(2, KERNEL_TYPE_MIX_AIV_1_0)", "KERNEL_TASK_TYPE(2, KERNEL_TYPE_AIV_ONLY)"),
    ),
    mutant(
        "meeting_without_batch_mode",
        "wrong tiling: the blocks are not started together",
        "E-22",
        "SetScheduleMode",
        (HOST, "        context->SetScheduleMode(BATCH_MODE);\n", ""),
    ),
    mutant(
        "more_blocks_than_cores",
        "wrong tiling: twice as many blocks as cores wait for each other",
        "E-22",
        "wait for each other on",
        (HOST, "std::min(cores / std::max", "std::min(2 * cores / std::max"),
    ),
    mutant(
        "parts_overlap",
        "overlapping cores: parts begin 512 elements early",
        "E-20",
        "is not ordered with the",
        (KERNEL, "partStart_ = part * tiling_.chunk;", "partStart_ = part * (tiling_.chunk - 512);"),
    ),
    mutant(
        "rows_overlap",
        "overlapping cores: the last total of a row is forgotten in the pitch of y",
        "E-20",
        "is not ordered with the",
        (
            KERNEL,
            "        tile.target = row * (tiling_.columns + 1) + from;",
            "        tile.target = row * tiling_.columns + from;",
        ),
    ),
    mutant(
        "slots_share_a_line",
        "overlapping cores: totals written through the data cache, two slots in a line",
        "E-18",
        "is not ordered with the",
        (
            KERNEL,
            STORE_SLOT,
            "        for (uint32_t i = 0; i < SLOT_BYTES; ++i) {\n"
            "            totals_.SetValue(block * SLOT_BYTES + i, slot.GetValue(i));\n        }\n",
        ),
    ),
    mutant(
        "stale_total",
        "stale cache: a total is read by S before it is written and after",
        "E-19",
        "DataCacheCleanAndInvalid is missing",
        (
            KERNEL,
            "        AscendC::LocalTensor<uint8_t> slot = slots_.Get<uint8_t>();\n",
            "        totals_.GetValue(0);\n        AscendC::SyncAll();\n"
            "        AscendC::LocalTensor<uint8_t> slot = slots_.Get<uint8_t>();\n",
        ),
        (
            KERNEL,
            "        AscendC::PipeBarrier<PIPE_ALL>();\n        AscendC::SyncAll();",
            "        AscendC::PipeBarrier<PIPE_ALL>();\n        AscendC::SyncAll();\n        totals_.GetValue(0);",
        ),
    ),
]

MEMORY = [
    mutant(
        "uninitialised_slot",
        "uninitialised read: 24 of the slot's 32 bytes are stored unset",
        "E-16",
        "were never written",
        (
            KERNEL,
            "        AscendC::Duplicate<uint32_t>(slot.ReinterpretCast<uint32_t>(), 0u, "
            "SLOT_BYTES / sizeof(uint32_t));\n",
            "",
        ),
    ),
    mutant(
        "tile_not_loaded",
        "uninitialised read: the second pass takes the first tile for loaded",
        "E-16",
        "were never written",
        (KERNEL, "ForTiles<true>(tiles, sum, tiles == 1);", "ForTiles<true>(tiles, sum, tiles > 1);"),
    ),
    mutant(
        "output_one_short",
        "overflow: no room for a row's total behind a full tile",
        "E-36",
        "is outside the buffer",
        (KERNEL, "outElements = tiling.tileElements + 1;", "outElements = tiling.tileElements;"),
    ),
    mutant(
        "unified_buffer_too_small",
        "overflow: tiles of 8-byte elements twice as long",
        "E-03",
        "do not fit the unified buffer",
        (HOST, "width == 8 ? 4096 : 8192", "8192"),
    ),
    mutant(
        "load_misaligned",
        "misalignment: tiles are loaded 8 bytes into their buffer",
        "E-01",
        "is not aligned to 32 bytes",
        (
            KERNEL,
            "AscendC::DataCopyPad(in_[slot].template Get<T>(),",
            "AscendC::DataCopyPad(in_[slot].template Get<T>()[1],",
        ),
    ),
    mutant(
        "totals_misaligned",
        "misalignment: the totals land 8 bytes after the own slot",
        "E-01",
        "is not aligned to 32 bytes",
        (KERNEL, "slots_.Get<uint8_t>()[SLOT_BYTES]", "slots_.Get<uint8_t>()[8]"),
    ),
    mutant(
        "workspace_without_slots",
        "wrong tiling: no bytes for the slots in the workspace",
        "E-17",
        "is outside every tensor",
        (HOST, "userBytes = static_cast<std::size_t>(blocks) * SLOT_BYTES;", "userBytes = 0;"),
    ),
    mutant(
        "workspace_without_library_part",
        "wrong tiling: the workspace lacks the library's part",
        "E-31",
        "lacks the system part",
        (HOST, "platform.GetLibApiWorkSpaceSize() + userBytes", "userBytes"),
    ),
    mutant(
        "second_pipe",
        "two TPipe objects in one core",
        "E-38",
        "a second TPipe",
        (
            KERNEL,
            "    CumsumKernel<DTYPE_X> kernel;\n",
            "    CumsumKernel<DTYPE_X> kernel;\n    AscendC::TPipe other;\n",
        ),
    ),
]

ATOMICS = [
    mutant(
        "atomic_onto_nothing",
        "wrong atomic: a total is added to a slot that nobody cleared",
        "E-21",
        "onto memory that nothing has initialised",
        (
            KERNEL,
            STORE_SLOT,
            "        AscendC::SetAtomicAdd<int32_t>();\n        AscendC::DataCopyPad(totals32[block * 8], "
            "slot.ReinterpretCast<int32_t>(), AscendC::DataCopyExtParams(1, SLOT_BYTES, 0, 0, 0));\n"
            "        AscendC::SetAtomicNone();\n",
        ),
        (KERNEL, SLOT, SLOT + TOTALS_32),
    ),
    mutant(
        "atomic_over_plain_store",
        "wrong atomic: the slot is cleared and added to without PipeBarrier<PIPE_MTE3>",
        "E-21",
        "is not ordered with the write",
        (
            KERNEL,
            STORE_SLOT,
            STORE_SLOT + "        AscendC::SetAtomicAdd<int32_t>();\n        AscendC::DataCopyPad(totals32[block * 8], "
            "slot.ReinterpretCast<int32_t>(), AscendC::DataCopyExtParams(1, SLOT_BYTES, 0, 0, 0));\n"
            "        AscendC::SetAtomicNone();\n",
        ),
        (KERNEL, SLOT, SLOT + TOTALS_32),
    ),
    mutant(
        "atomic_mode_left_on",
        "wrong atomic: the results are added to y, and the mode stays on",
        "E-30",
        "elements that have no atomic operation",
        (
            KERNEL,
            "        AscendC::SyncAll();\n",
            "        AscendC::SyncAll();\n        AscendC::SetAtomicAdd<float>();\n",
        ),
    ),
    mutant(
        "atomic_mode_on_at_the_end",
        "wrong atomic: the mode is on when the kernel ends",
        "E-34",
        "SetAtomicNone is missing",
        (
            KERNEL,
            "        kernel.ScanWholeRows();\n",
            "        kernel.ScanWholeRows();\n        AscendC::SetAtomicMax<int32_t>();\n",
        ),
    ),
    mutant(
        "atomic_of_wide_integers",
        "wrong atomic: 64-bit integers have none",
        COMPILER,
        "E-30: this type has no atomic operation",
        (KERNEL, "        AscendC::SyncAll();\n", "        AscendC::SyncAll();\n        AscendC::SetAtomicAdd<T>();\n"),
    ),
]

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
            "AscendC::DataCopyPad(y_[tile.target], out_[slot].template Get<T>(),\n"
            "                             AscendC::DataCopyExtParams(1, elements * static_cast<uint32_t>(sizeof(T)), "
            "0, 0, 0));",
            "AscendC::DataCopy(y_[tile.target], out_[slot].template Get<T>(), elements);",
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
        (HOST, "KEY_WHOLE_ROWS = 1;", "KEY_WHOLE_ROWS = 3;"),
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

MUTANTS = [*SYNCHRONISATION, *BETWEEN_CORES, *MEMORY, *ATOMICS, *LOGIC]
