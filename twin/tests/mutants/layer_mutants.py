"""Mutants of the operators around HSTU's attention: norms, strips, blocks that the cube and the vector unit share."""

from __future__ import annotations

from half_cases import HALF_GATE_GRADIENTS
from layer_cases import GATE, GATE_GRADIENTS, PROJECTION, PROJECTION_GRADIENTS
from mutant import COMPARISON, Edit, Mutant
from workshop import Operator

NORM = "common/layer_norm.h"
STRIPS = "common/layer_strips.h"
BLOCKS = "common/layer_blocks.h"
HOST = "common/layer_host.h"
GATE_KERNEL = "hstu_gated_output/op_kernel/hstu_gated_output.cpp"
GATE_BACKWARD = "hstu_gated_output/op_kernel/hstu_gated_output_backward.cpp"
PROJECTION_KERNEL = "hstu_projection/op_kernel/hstu_projection.cpp"
PARTS = "hstu_projection/op_kernel/projection_parts.h"
PROJECTION_BACKWARD = "hstu_projection/op_kernel/hstu_projection_backward.cpp"
WRONG = "wrong: element"


def mutant(
    name: str, fault: str, operator: Operator, found_by: str, message: str, *edits: tuple[str, str, str]
) -> Mutant:
    return Mutant(f"layer_{name}", fault, operator, tuple(Edit(*e) for e in edits), found_by, message)


MUTANTS = [
    mutant(
        "scalars_not_waited_for",
        "missing sync: the scalar unit reads means that the vector unit still makes",
        GATE,
        "E-11",
        "by pipe S does not wait for the write by pipe V",
        (NORM, "Mean(mean, x, rows); WaitFor<AscendC::HardEvent::V_S>();", "Mean(mean, x, rows);"),
    ),
    mutant(
        "tail_of_rows_left_out",
        "logic: columns beyond the last 64 are not in the mean",
        GATE,
        COMPARISON,
        WRONG,
        (NORM, "if (tail != 0)", "if (tail > LANES)"),
    ),
    mutant(
        "padding_not_filled",
        "wrong copy: what stands beyond the columns of a row in local memory is never written",
        GATE,
        "E-16",
        "were never written",
        (STRIPS, "static_cast<uint8_t>(Least(missing, 32 / sizeof(S)))", "static_cast<uint8_t>(0)"),
    ),
    mutant(
        "cube_reads_too_early",
        "missing sync: the cube multiplies rows whose stores are still on their way",
        GATE,
        "E-32",
        "is not ordered with the read of GM",
        (GATE_KERNEL, "layer::WaitFor<AscendC::HardEvent::MTE3_S>();", ""),
    ),
    mutant(
        "one_slot",
        "missing sync: blocks that follow each other share their place in the workspace",
        GATE,
        "E-32",
        "is not ordered with the write of GM",
        (BLOCKS, "block.slot = taken_++ % 2;", "block.slot = 0;"),
    ),
    mutant(
        "norm_lost",
        "logic: the projection on the norm stays in the gradient",
        GATE_GRADIENTS,
        COMPARISON,
        WRONG,
        (NORM, "AscendC::Sub(gradient, gradient, normed, count);", ""),
    ),
    mutant(
        "workspace_too_small",
        "wrong tiling field: no workspace for a block's sums",
        PROJECTION_GRADIENTS,
        "E-17",
        "is outside every tensor of the launch",
        (HOST, "tiling.coreBytes = tiling.sumBlocks *", "tiling.coreBytes = 0 *"),
    ),
    mutant(
        "first_panel_again",
        "wrong address: every panel of products is made of weight's first columns",
        PROJECTION,
        COMPARISON,
        WRONG,
        (PARTS, "product.SetTensorB(weight[panel.start + panel.column]);", "product.SetTensorB(weight);"),
    ),
    mutant(
        "panel_not_waited_for",
        "missing wait: SiLU is applied to products that are not there yet",
        PROJECTION,
        "E-32",
        "End before WaitIterateAll",
        (PROJECTION_KERNEL, "if (follows) { layer::FinishProduct(product); } panels_.Start(", "panels_.Start("),
    ),
    mutant(
        "panel_in_work",
        "wrong order: SiLU is applied to the panel that the cube has begun",
        PROJECTION,
        "E-32",
        "is not ordered with",
        (PROJECTION_KERNEL, "if (follows) { ApplySilu(before);", "if (follows) { ApplySilu(panel);"),
    ),
    mutant(
        "rows_of_the_first_block",
        "wrong condition: the rows of the first block alone are normalised",
        PROJECTION,
        "E-16",
        "which nothing has written",
        (PROJECTION_KERNEL, "if (panel.first) {", "if (panel.first && panel.block.first == 0) {"),
    ),
    mutant(
        "all_to_the_first_part",
        "wrong address: the products of all parts go to the first tensor of the list",
        PROJECTION,
        "E-17",
        "is outside",
        (PROJECTION_KERNEL, "parts_.GetDataPtr<T>(panel.part)", "parts_.GetDataPtr<T>(0)"),
    ),
    mutant(
        "pitch_of_a_panel",
        "wrong pitch: the cube writes rows of a part as far apart as a panel is wide",
        PROJECTION,
        "E-32",
        "is not ordered with the write of GM",
        (PROJECTION_KERNEL, "Part(panel, 0, panel.column), panel.width", "Part(panel, 0, panel.column), panel.columns"),
    ),
    mutant(
        "sign_of_the_exponential",
        "logic: the sign of the exponential is lost",
        PROJECTION,
        COMPARISON,
        WRONG,
        (PROJECTION_KERNEL, "AscendC::Muls(e, x, -1.0f, count);", "AscendC::Muls(e, x, 1.0f, count);"),
    ),
    mutant(
        "blocks_share_rows",
        "overlapping cores: the products of all blocks go to the first rows of the result",
        GATE,
        "E-20",
        "is not ordered with the write of GM",
        (GATE_KERNEL, "out_[static_cast<uint64_t>(block.first) * dim_], 0", "out_, 0"),
    ),
    mutant(
        "products_of_another_block",
        "missing wait: gradients are made of products that are not there yet",
        PROJECTION_GRADIENTS,
        "E-32",
        "was not ended",
        (PROJECTION_BACKWARD, "layer::FinishProduct(product);", ""),
    ),
    mutant(
        "slope_of_silu",
        "logic: the slope of SiLU lacks its second term",
        PROJECTION_GRADIENTS,
        COMPARISON,
        WRONG,
        (PROJECTION_BACKWARD, "AscendC::Adds(z, z, 1.0f, count);", "AscendC::Duplicate(z, 1.0f, count);"),
    ),
    mutant(
        "sums_taken_too_early",
        "missing wait: a block's sums go where those of the block before are still read",
        PROJECTION_GRADIENTS,
        "E-32",
        "is not ordered with",
        (
            PROJECTION_BACKWARD,
            "FinishRows(before); } StartGradient(panel.block);",
            "} StartGradient(panel.block); if (follows) { FinishRows(before); }",
        ),
    ),
    mutant(
        "halves_swapped",
        "wrong address: the left half of the sums is taken for the right one",
        HALF_GATE_GRADIENTS,
        COMPARISON,
        "wrong: byte",
        (GATE_BACKWARD, "FetchHalves(to, left_[at], right_[at],", "FetchHalves(to, right_[at], left_[at],"),
    ),
    mutant(
        "second_half_not_waited_for",
        "missing wait: of a block's two products one is waited for",
        HALF_GATE_GRADIENTS,
        "E-32",
        "WaitIterateAll",
        (GATE_BACKWARD, "if (halves_) { product.WaitIterateAll();", "if (false) { product.WaitIterateAll();"),
    ),
]
