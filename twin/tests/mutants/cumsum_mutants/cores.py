"""Mutants of the meeting of the cores and of their atomic sums."""

from __future__ import annotations

from mutant import COMPILER

from .sources import HOST, KERNEL, SLOT, STORE_SLOT, TOTALS_32, mutant

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
