"""Mutants of HSTU attention and its gradients: requests to the cube, slots of the workspace, masks, sums in place."""

from __future__ import annotations

from half_cases import HALF_ATTENTION, HALF_GRADIENTS
from hstu_cases import ATTENTION, GRADIENTS
from mutant import COMPARISON, Edit, Mutant

KERNEL = "hstu_dense_forward/op_kernel/hstu_forward.h"
HOST = "hstu_dense_forward/op_host/hstu_forward_host.h"
LAUNCH = "common/hstu_launch.h"
MASK = "common/hstu_mask.h"
TASKS = "common/hstu_tasks.h"
VECTOR = "common/hstu_vector.h"
GRAD_KERNEL = "hstu_dense_backward/op_kernel/hstu_dense_backward.cpp"
PASS = "hstu_dense_backward/op_kernel/gradient_pass.h"
PRODUCTS = "hstu_dense_backward/op_kernel/gradient_products.h"
QUERY_SUMS = "hstu_dense_backward/op_kernel/query_sums.h"
SHARED_BIAS = "hstu_dense_backward/op_kernel/bias_pass.h"
STRIPS = "common/hstu_gradient_strips.h"
GRAD_HOST = "hstu_dense_backward/op_host/hstu_dense_backward.cpp"
SIZES = "hstu_dense_backward/op_host/hstu_backward_host.h"
SEGMENTS = "common/hstu_segments.h"
WRONG = "wrong: element"
EARLY = "if (follows) { StartScores(next, number + 1); } if (number > 0) { FinishValues(before); }"
STORED = "        // The cube reads what the stores have written.\n"
WAIT = "WaitFor<AscendC::HardEvent::MTE3_S>();\n"


def attention(name: str, fault: str, found_by: str, message: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(f"hstu_{name}", fault, ATTENTION, tuple(Edit(*e) for e in edits), found_by, message)


def gradient(name: str, fault: str, found_by: str, message: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(f"hstu_grad_{name}", fault, GRADIENTS, tuple(Edit(*e) for e in edits), found_by, message)


ATTENTIONS = [
    attention(
        "weights_not_stored_yet",
        "missing sync: the cube is asked for a product of weights that are still on their way",
        "E-32",
        "is not ordered with",
        (KERNEL, STORED + "        hstu::" + WAIT, STORED),
    ),
    attention(
        "scores_not_waited_for",
        "missing sync: the vector unit loads scores that the cube still makes",
        "E-32",
        "WaitIterateAll",
        (KERNEL, "            scores.WaitIterateAll();\n", ""),
    ),
    attention(
        "strip_loaded_past_the_queue",
        "missing sync: a strip of scores is used without passing through the queue",
        "E-11",
        "by pipe V does not wait for the write by pipe MTE2",
        (KERNEL, "        in_.EnQue(x);\n        x = in_.template DeQue<float>();\n", ""),
    ),
    attention(
        "one_slot_for_all_tiles",
        "wrong slot: the next tile's scores go where this tile's weights are made",
        "E-32",
        "is not ordered with",
        (KERNEL, "static_cast<uint64_t>(number % HSTU_SLOTS)", "static_cast<uint64_t>(number % 1)"),
    ),
    attention(
        "slot_taken_too_early",
        "missing wait: the next tile's scores go where the cube still reads the weights of the one before",
        "E-32",
        "is not ordered with",
        (KERNEL, "if (number > 0) { FinishValues(before); } if (follows) { StartScores(next, number + 1); }", EARLY),
    ),
    attention(
        "workspace_of_one_slot",
        "wrong tiling field: the workspace of a core holds one tile of two",
        "E-17",
        "of a GlobalTensor of",
        (HOST, "HSTU_SLOTS * tiling.slotElements", "1 * tiling.slotElements"),
    ),
    attention(
        "pitch_of_the_columns",
        "wrong tiling field: tiles as wide as the longest sequence, not padded",
        "E-17",
        "of a GlobalTensor of",
        (LAUNCH, "RoundUpTo(longest, HSTU_COLUMN_UNIT)", "longest"),
    ),
    attention(
        "first_product_added",
        "wrong atomic: the first product is added to a result that nobody cleared",
        "E-21",
        "which nothing has written",
        (KERNEL, "const uint8_t add = tile.first ? 0 : 1;", "const uint8_t add = 1;"),
    ),
    attention(
        "later_products_overwrite",
        "wrong atomic: the product of a later stretch of keys overwrites the sum",
        COMPARISON,
        WRONG,
        (KERNEL, "const uint8_t add = tile.first ? 0 : 1;", "const uint8_t add = 0;"),
    ),
    attention(
        "edges_not_cut",
        "wrong mask: the diagonal is not cut",
        COMPARISON,
        WRONG,
        (KERNEL, "        if (!tile.full) {\n", "        if (false) {\n"),
    ),
    attention(
        "first_target_seen_by_all",
        "wrong mask: every target sees the first one",
        COMPARISON,
        WRONG,
        (MASK, "RowView view = One(first, history_);", "RowView view = One(first, history_ + 1);"),
    ),
    attention(
        "window_one_too_wide",
        "wrong mask: a window by distance has one key too many",
        COMPARISON,
        WRONG,
        (MASK, "Most(0, row - reach_)", "Most(0, row - reach_ - 1)"),
    ),
    attention(
        "window_not_of_history",
        "wrong mask: a window by distance narrows what targets see of their group, and nothing else",
        COMPARISON,
        WRONG,
        (MASK, "Most(FirstInWindow(row), FirstInReach(row));", "FirstInWindow(row);"),
    ),
    attention(
        "ranges_overlap",
        "overlapping cores: ranges of tasks end a task late",
        "E-20",
        "is not ordered with the",
        (TASKS, "end_ = begin_ + share;", "end_ = begin_ + 2 * share;"),
    ),
]

GRADIENTS_OF_ALL = [
    gradient(
        "bias_not_cleared_by_all",
        "missing SyncAll: a core clears cells of the bias gradient that another one has written",
        "E-20",
        "is not ordered with",
        (GRAD_KERNEL, "    AscendC::SyncAll();\n", ""),
    ),
    gradient(
        "meeting_without_batch_mode",
        "wrong tiling: the blocks are not started together",
        "E-22",
        "SetScheduleMode",
        (SIZES, "context->SetScheduleMode(1);", "context->SetScheduleMode(0);"),
    ),
    gradient(
        "tiles_not_stored_yet",
        "missing sync: the cube is asked for a product of tiles that are still on their way",
        "E-32",
        "is not ordered with",
        (PASS, STORED + "        " + WAIT, STORED),
    ),
    gradient(
        "one_of_two_products_not_waited_for",
        "missing sync: scores are waited for, the products with v are not",
        "E-32",
        "WaitIterateAll",
        (
            PRODUCTS,
            "        scores.WaitIterateAll();\n        scores.WaitIterateAll();\n",
            "        scores.WaitIterateAll();\n",
        ),
    ),
    gradient(
        "shared_bias_has_many_owners",
        "wrong tiling field: the gradient of a shared bias is written as one of each sequence",
        "E-17",
        "is outside every tensor",
        (GRAD_HOST, "? 1\n                           : 0;", "? 0\n                           : 0;"),
    ),
    gradient(
        "first_column_sum_added",
        "wrong atomic: the first product is added to a gradient that nobody cleared",
        "E-21",
        "which nothing has written",
        (
            PRODUCTS,
            "columnSums.template IterateAll<false>(target, first ? 0 : 1, false, true);",
            "columnSums.template IterateAll<false>(target, 1, false, true);",
        ),
    ),
    gradient(
        "query_sums_not_cleared",
        "wrong atomic: products are added to sums that nobody cleared",
        "E-21",
        "which nothing has written",
        (PASS, "querySums_.Open(tile);", ""),
    ),
    gradient(
        "query_sums_cleared_late",
        "missing sync: the cube adds to sums whose zeros are still on their way",
        "E-32",
        "is not ordered with",
        (QUERY_SUMS, "        // The cube adds to what the stores have written.\n        " + WAIT, ""),
    ),
    gradient(
        "query_sums_of_one_row_cleared",
        "wrong tail: of the queries that see a segment the first one is cleared",
        "E-21",
        "which nothing has written",
        (QUERY_SUMS, "Clear(Of(tile, begin), (end - begin) * Pitch());", "Clear(Of(tile, begin), Pitch());"),
    ),
    gradient(
        "segments_not_met",
        "missing SyncAll: a core adds up sums that others still make",
        "E-20",
        "is not ordered with",
        (QUERY_SUMS, "AscendC::SyncAll();", ""),
    ),
    gradient(
        "one_segment_only",
        "logic: queries get the gradients of the first segment that they see",
        COMPARISON,
        WRONG,
        (QUERY_SUMS, "AscendC::Add(sum, sum, term, elements);", ""),
    ),
    gradient(
        "slabs_of_half_the_size",
        "wrong tiling field: the workspace holds half of the sums of each segment",
        "E-17",
        "is outside every tensor",
        (SIZES, "(tiling.heads * tiling.slabRows * pitch)", "(tiling.heads * tiling.slabRows * pitch / 2)"),
    ),
    gradient(
        "segment_begun_by_every_task",
        "logic: each task clears the sums of its segment",
        COMPARISON,
        WRONG,
        (TASKS, "tile.opens = firstTile_ && block_ == segmentStart_;", "tile.opens = firstTile_;"),
    ),
    gradient(
        "one_slab_for_all_segments",
        "overlapping cores: the segments of a head add to one slab",
        "E-20",
        "is not ordered with",
        (SEGMENTS, "return slab_ + segment * sequence.queries;", "return slab_;"),
    ),
    gradient(
        "tile_of_the_bias_not_cut",
        "wrong tail: the last tile of a shared bias is a full one",
        "E-17",
        "of a GlobalTensor of",
        (SHARED_BIAS, "tile.rows = Least(edge_, size_ - row);", "tile.rows = edge_;"),
    ),
    gradient(
        "padding_of_a_strip_added",
        "uninitialised read: columns behind a sequence's end are added to the sum",
        COMPARISON,
        WRONG,
        (SHARED_BIAS, "            if (strip.columns < strip.pitch) {\n", "            if (false) {\n"),
    ),
    gradient(
        "slope_without_its_sigmoid",
        "logic: the derivative of SiLU lacks a term",
        COMPARISON,
        WRONG,
        (STRIPS, "        AscendC::Add(slope, slope, sigma, count);\n", ""),
    ),
    gradient(
        "gradients_not_cut",
        "wrong mask: the diagonal of the score gradients is not cut",
        COMPARISON,
        WRONG,
        (STRIPS, "            CutRows(dp_, mask,", "            CutRows(x_, mask,"),
    ),
    gradient(
        "slot_reused_by_the_next_head",
        "missing barrier: the cube writes the next products over those that are still read",
        "E-32",
        "is not ordered with",
        (
            SHARED_BIAS,
            "            // The next products go into the same slot.\n            AscendC::PipeBarrier<PIPE_ALL>();\n",
            "",
        ),
    ),
]

ROUNDS = "if (number > 0) { Close(before); } "
IN_HALVES = [
    Mutant(
        "hstu_strip_not_cut",
        "wrong tail: the last strip of a tile has as many rows as the others",
        HALF_ATTENTION,
        (Edit(KERNEL, "hstu::Least(atOnce, end - from), Pitch(tile));", "atOnce, Pitch(tile));"),),
        "E-17",
        "of a GlobalTensor of",
    ),
    Mutant(
        "hstu_sums_rounded_late",
        "missing wait: a task's first product goes where the sums of the task before are still read",
        HALF_ATTENTION,
        (
            Edit(KERNEL, ROUNDS + "MakeWeights(tile, number, half,", "MakeWeights(tile, number, half,"),
            Edit(KERNEL, "StartValues(tile, number); before =", "StartValues(tile, number); " + ROUNDS + "before ="),
        ),
        "E-32",
        "is not ordered with",
    ),
    Mutant(
        "hstu_grad_sums_rounded_late",
        "missing wait: a task's first products go where the sums of the task before are still read",
        HALF_GRADIENTS,
        (
            Edit(PASS, ROUNDS + "Differentiate(tile, number, half,", "Differentiate(tile, number, half,"),
            Edit(PASS, "StartSums(tile, number); before =", "StartSums(tile, number); " + ROUNDS + "before ="),
        ),
        "E-32",
        "is not ordered with",
    ),
]

MUTANTS = [*ATTENTIONS, *GRADIENTS_OF_ALL, *IN_HALVES]
