"""Mutants of the tiling and the host side."""

from __future__ import annotations

from jagged_cases import TO_DENSE, TO_JAGGED
from mutant import COMPARISON

from .sources import DENSE, DENSE_HOST, JAGGED, JAGGED_HOST, SPLIT, mutant

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
        "561002",
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
