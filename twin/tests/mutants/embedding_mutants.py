"""Mutants of the embedding lookup and of the fused optimizer step: row traffic, a radix sort, sums over blocks."""

from __future__ import annotations

from embedding_cases import LOOKUP, UPDATE
from mutant import COMPARISON, Edit, Mutant

COMMON = "common/embedding_tables.h"
FORWARD = "split_embedding_codegen_forward_unweighted"
KERNEL = f"{FORWARD}/op_kernel/{FORWARD}.cpp"
GROUPS = f"{FORWARD}/op_kernel/row_groups.h"
RESULTS = f"{FORWARD}/op_kernel/result_rows.h"
HOST = f"{FORWARD}/op_host/{FORWARD}.cpp"
BACKWARD = "backward_codegen_adagrad_unweighted_exact"
STEP_KERNEL = f"{BACKWARD}/op_kernel/{BACKWARD}.cpp"
SORT = f"{BACKWARD}/op_kernel/radix_sort.h"
UPDATES = f"{BACKWARD}/op_kernel/row_updates.h"
TRAFFIC = f"{BACKWARD}/op_kernel/row_traffic.h"
STEP_HOST = f"{BACKWARD}/op_host/{BACKWARD}.cpp"
WRONG_BITS, WRONG = "wrong: byte", "wrong: element"
STORE = "        AscendC::DataCopyPad(target[static_cast<uint64_t>(at)], result,\n"
STORE_ROW = "        Store(weights_, table.Weights() + column, rows.weights[slot * pitch_], columns);\n"


def lookup(name: str, fault: str, found_by: str, message: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(f"lookup_{name}", fault, LOOKUP, tuple(Edit(*e) for e in edits), found_by, message)


def update(name: str, fault: str, found_by: str, message: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(f"update_{name}", fault, UPDATE, tuple(Edit(*e) for e in edits), found_by, message)


LOOKUPS = [
    lookup(
        "sum_not_cleared",
        "uninitialised read: a bag's rows are added to what the buffer held",
        "E-16",
        "were never written",
        (
            KERNEL,
            "        AscendC::Duplicate<float>(sum_.Get<float>(), 0.0f, static_cast<int32_t>(pitch_));\n",
            "",
        ),
    ),
    lookup(
        "indices_not_waited_for",
        "missing sync: the scalar unit reads indices that are still on their way",
        "E-11",
        "by pipe S does not wait for the write by pipe MTE2",
        (
            COMMON,
            "        Fence<AscendC::HardEvent::MTE2_S>();\n        first_ = first;\n",
            "        first_ = first;\n",
        ),
    ),
    lookup(
        "group_not_cut",
        "wrong tail: the last group of a share is a full one",
        "E-17",
        "of a GlobalTensor of",
        (
            GROUPS,
            "group.count = embedding::Smaller(end - first, groupRows_);",
            "group.count = end > first ? groupRows_ : 0;",
        ),
    ),
    lookup(
        "batch_of_the_bags",
        "wrong tiling field: T * B samples",
        "host",
        "561002",
        (HOST, "tiling->batch = tiling->bags / tiling->features;", "tiling->batch = tiling->bags;"),
    ),
    lookup(
        "columns_of_the_widest_row",
        "wrong tiling field: max_d instead of the columns of the result",
        COMPARISON,
        WRONG_BITS,
        (HOST, "tiling->outColumns = out.GetDim(1);", "tiling->outColumns = maxD;"),
    ),
    lookup(
        "rows_beyond_the_table",
        "out of range: an index behind its table is believed",
        "E-17",
        "of a GlobalTensor of",
        (GROUPS, "if (row < 0 || row >= table.Rows()) {", "if (row < 0) {"),
    ),
    lookup(
        "results_added",
        "wrong atomic: results are added to memory that nobody cleared",
        "E-21",
        "onto memory that nothing has initialised",
        (RESULTS, STORE, "        AscendC::SetAtomicAdd<float>();\n" + STORE),
    ),
    lookup(
        "shares_overlap",
        "overlapping cores: shares of rows end one row late",
        "E-20",
        "is not ordered with the",
        (
            KERNEL,
            "const int64_t end = tiling_.indexCount * (core + 1) / cores;",
            "const int64_t end = embedding::Smaller(tiling_.indexCount * (core + 1) / cores + 1, tiling_.indexCount);",
        ),
    ),
    lookup(
        "result_not_waited_for",
        "missing sync: a result is stored without passing through the queue",
        "E-11",
        "by pipe MTE3 does not wait for the write by pipe V",
        (RESULTS, "        queue_.EnQue(result);\n        result = queue_.DeQue<Out>();\n", ""),
    ),
]

UPDATES_OF_ROWS = [
    update(
        "no_meetings",
        "missing SyncAll: counts and records are read while others write them",
        "E-17",
        "of a GlobalTensor of",
        (SORT, "        AscendC::SyncAll();\n", ""),
    ),
    update(
        "sums_joined_before_all_are_there",
        "missing meeting: block sums are added up while others write them",
        "E-20",
        "is not ordered with",
        (STEP_KERNEL, "    RadixSort::Meet();\n", "    AscendC::PipeBarrier<PIPE_ALL>();\n"),
    ),
    update(
        "records_stored_before_grouped",
        "missing sync: a tile of records is stored without S_MTE3",
        "E-11",
        "by pipe MTE3 does not wait for the write by pipe S",
        (
            SORT,
            "        embedding::Fence<AscendC::HardEvent::S_MTE3>();\n"
            "        for (uint32_t digit = 0; digit <= mask_; ++digit) {\n            const int32_t count",
            "        for (uint32_t digit = 0; digit <= mask_; ++digit) {\n            const int32_t count",
        ),
    ),
    update(
        "tile_not_cut",
        "wrong tail: the last tile of records is taken for a full one",
        "E-16",
        "were never written",
        (
            SORT,
            "            const int64_t count = embedding::Smaller(SORT_TILE, end_ - at);\n"
            "            const Records records",
            "            const int64_t count = SORT_TILE;\n            const Records records",
        ),
    ),
    update(
        "shares_end_inside_blocks",
        "wrong tiling field: a core's share is no whole number of blocks of sums",
        "E-36",
        "is outside the buffer",
        (
            STEP_HOST,
            "embedding::CeilTo(std::max(share, MIN_CHUNK), BLOCK);",
            "embedding::CeilTo(std::max(share, MIN_CHUNK), BLOCK) - 28;",
        ),
    ),
    update(
        "workspace_without_counts",
        "wrong tiling: no bytes for the digits' counts in the workspace",
        "E-17",
        "is outside every tensor",
        (STEP_HOST, "cores * COUNTS_PER_CORE +\n", "\n"),
    ),
    update(
        "rows_added",
        "wrong atomic: updated rows are added to the old ones",
        COMPARISON,
        WRONG,
        (
            TRAFFIC,
            STORE_ROW,
            "        AscendC::SetAtomicAdd<T>();\n" + STORE_ROW + "        AscendC::SetAtomicNone();\n",
        ),
    ),
    update(
        "state_not_loaded",
        "uninitialised read: the optimizer's state is not loaded",
        "E-16",
        "were never written",
        (UPDATES, "                traffic_.LoadState(rows, slot, tables_, column_, columns);\n", ""),
    ),
    update(
        "equal_digits_in_any_order",
        "logic: a core's records go before those of the cores before it",
        "E-13",
        "is not ordered with the write",
        (SORT, "if (first + i < AscendC::GetBlockIdx()) {", "if (first + i > AscendC::GetBlockIdx()) {"),
    ),
    update(
        "partial_sums_at_one_place",
        "wrong place: the sum from before and the one that goes on share a slot",
        "E-13",
        "is not ordered with the write",
        (
            UPDATES,
            "return (block * PARTIALS + which) * tiling_.partialPitch",
            "return block * PARTIALS * tiling_.partialPitch",
        ),
    ),
    update(
        "updated_by_both",
        "logic: a row over several blocks is joined from each of them",
        "E-13",
        "is not ordered with the write",
        (UPDATES, "if (!contribution.goesOn || contribution.fromBefore ||", "if (!contribution.goesOn ||"),
    ),
]

MUTANTS = [*LOOKUPS, *UPDATES_OF_ROWS]
