"""Mutants of the relative bias: local tables, rows of a turned table, buckets, sums of the cores."""

from __future__ import annotations

from hstu_relative_cases import RELATIVE, RELATIVE_GRADIENTS
from mutant import COMPARISON, Edit, Mutant

BIAS = "common/hstu_relative.h"
SECONDS = "common/hstu_tile_seconds.h"
TABLE = "common/hstu_turned_table.h"
BUCKETS = "common/hstu_time_buckets.h"
BIAS_HOST = "common/hstu_relative_host.h"
SUMS = "hstu_dense_backward/op_kernel/relative_sums.h"
WRONG = "wrong: element"


def bias(name: str, fault: str, found_by: str, message: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(f"hstu_relative_{name}", fault, RELATIVE, tuple(Edit(*e) for e in edits), found_by, message)


def sums(name: str, fault: str, found_by: str, message: str, *edits: tuple[str, str, str]) -> Mutant:
    changes = tuple(Edit(*e) for e in edits)
    return Mutant(f"hstu_relative_grad_{name}", fault, RELATIVE_GRADIENTS, changes, found_by, message)


MUTANTS = [
    bias(
        "times_not_waited_for",
        "missing sync: the scalar unit reads times that are still on their way",
        "E-11",
        "by pipe S does not wait for the write by pipe MTE2",
        (SECONDS, "WaitFor<AscendC::HardEvent::MTE2_S>();", ""),
    ),
    bias(
        "parts_not_waited_for",
        "missing sync: the vector unit reads parts of the times that the scalar unit still writes",
        "E-11",
        "by pipe V does not wait for the write by pipe S",
        (
            SECONDS,
            "-static_cast<float>(since >> LOW_BITS)); } WaitFor<AscendC::HardEvent::S_V>();",
            "-static_cast<float>(since >> LOW_BITS)); }",
        ),
    ),
    bias(
        "targets_stand_apart",
        "logic: targets stand where their order puts them",
        COMPARISON,
        WRONG,
        (BIAS, "table_.Place(Least(row, history_), column)", "table_.Place(row, column)"),
    ),
    bias(
        "bucket_begins_late",
        "logic: the first second of a bucket counts to the one before",
        COMPARISON,
        WRONG,
        (
            BIAS,
            "buckets_.Edge(bucket), AscendC::CMPMODE::LT",
            "buckets_.Edge(bucket), AscendC::CMPMODE::LE",
        ),
    ),
    bias(
        "high_part_dropped",
        "logic: times further apart than a float32 is exact lose their upper part",
        COMPARISON,
        WRONG,
        (SECONDS, "split_ = (spread >> LOW_BITS) != 0;", "split_ = false;"),
    ),
    bias(
        "tail_of_the_table_missing",
        "wrong tiling field: the turned table ends with distance 0",
        "E-17",
        "of a GlobalTensor of",
        (BIAS_HOST, "HSTU_TURN + relative.positions + HSTU_TILE_SIDE", "relative.positions"),
    ),
    sums(
        "not_cleared",
        "wrong atomic: gradients are added to sums that nobody cleared",
        "E-21",
        "nothing has initialised",
        (BIAS, "table_.Fill(sums_, 0, static_cast<int64_t>(relative.sumElements), 0.0f);", ""),
    ),
    sums(
        "no_meeting",
        "missing SyncAll: a core adds up sums that others still make",
        "E-20",
        "is not ordered with",
        (SUMS, "AscendC::SyncAll();", ""),
    ),
    sums(
        "later_keys_forgotten",
        "logic: what contextual tokens see later is left out of distance 0",
        COMPARISON,
        WRONG,
        (SUMS, "later = SumOfTail();", "later = 0.0f;"),
    ),
    sums(
        "bucket_counted_twice",
        "logic: a bucket's gradients are left for the buckets after it",
        COMPARISON,
        WRONG,
        (BIAS, "AscendC::Sub(gradients, gradients, values, count);", ""),
    ),
]
