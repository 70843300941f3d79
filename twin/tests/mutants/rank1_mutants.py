"""Mutants of GatherForRank1 and IndexSelectForRank1Backward: the vector unit's Gather, images of x in the workspace."""

from __future__ import annotations

from lookup_cases import GATHER, GATHER_GRAD
from mutant import COMPARISON, Edit, Mutant

KERNEL = "gather_for_rank1/op_kernel/gather_for_rank1.cpp"
OFFSETS = "gather_for_rank1/op_kernel/byte_offsets.h"
HOST = "gather_for_rank1/op_host/gather_for_rank1.cpp"
GRAD_KERNEL = "index_select_for_rank1_backward/op_kernel/index_select_for_rank1_backward.cpp"
GRAD_TILES = "index_select_for_rank1_backward/op_kernel/index_tiles.h"
GRAD_HOST = "index_select_for_rank1_backward/op_host/index_select_for_rank1_backward.cpp"
WRONG = "wrong: byte"
STORE = "        AscendC::DataCopyPad(y_[at * PER_ELEMENT], results,"
STORE_SUMS = (
    "        AscendC::DataCopyPad(gradX_[static_cast<uint64_t>(at)], result, rank1::Burst(count, sizeof(T)));\n"
)


def gather(name: str, fault: str, found_by: str, message: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(f"gather_{name}", fault, GATHER, tuple(Edit(*e) for e in edits), found_by, message)


def gradient(name: str, fault: str, found_by: str, message: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(f"gather_grad_{name}", fault, GATHER_GRAD, tuple(Edit(*e) for e in edits), found_by, message)


GATHERS = [
    gather(
        "table_loaded_under_its_zeros",
        "missing sync: x is loaded while the vector unit still writes the zeros around it",
        "E-11",
        "by pipe MTE2 does not wait for the write by pipe V",
        (
            KERNEL,
            "        Fence<AscendC::HardEvent::V_MTE2>();\n        if (words > 0) {\n",
            "        if (words > 0) {\n",
        ),
    ),
    gather(
        "indices_given_back_early",
        "missing sync: the queue gets indices back that the scalar unit still reads",
        "E-11",
        "by pipe MTE2 does not wait for the read by pipe S",
        (
            KERNEL,
            "        Fence<AscendC::HardEvent::S_V>();      "
            "// the indices have been read when the queue gets them back\n",
            "",
        ),
    ),
    gather(
        "slots_not_waited_for",
        "missing sync: slots are put together while elements are still on their way",
        "E-11",
        "by pipe V does not wait for the write by pipe MTE2",
        (
            KERNEL,
            "        Fence<AscendC::HardEvent::MTE2_V>();\n        AscendC::Gather(results, slots,",
            "        AscendC::Gather(results, slots,",
        ),
    ),
    gather(
        "tile_not_cut",
        "wrong tail: the last tile is taken for a full one",
        "E-17",
        "of a GlobalTensor of",
        (
            KERNEL,
            "left < tiling_.tileElements ? static_cast<uint32_t>(left) : tiling_.tileElements;",
            "left > 0 ? tiling_.tileElements : 0;",
        ),
    ),
    gather(
        "length_of_the_index",
        "wrong tiling field: the entries of index instead of the elements of x",
        "E-17",
        "is outside every tensor",
        (HOST, "tiling->length = x.GetDim(0);", "tiling->length = index.GetShapeSize();"),
    ),
    gather(
        "table_without_its_zeros",
        "wrong tiling field: the table's buffer lacks the zeros behind x",
        "E-25",
        "is outside the buffer",
        (HOST, "(CeilDiv(bytes, UB_BLOCK) + 3) * UB_BLOCK", "(CeilDiv(bytes, UB_BLOCK) + 1) * UB_BLOCK"),
    ),
    gather(
        "indices_not_clamped",
        "out of range: indices behind x are believed",
        "E-25",
        "is outside",
        (OFFSETS, "        AscendC::Mins(offsets, offsets, length_, elements);\n", ""),
    ),
    gather(
        "results_added",
        "wrong atomic: bits of unknown meaning are added to y",
        "E-30",
        "elements that have no atomic operation",
        (KERNEL, STORE, "        AscendC::SetAtomicAdd<float>();\n" + STORE),
    ),
    gather(
        "shares_overlap",
        "overlapping cores: shares begin 8 entries early",
        "E-20",
        "is not ordered with the",
        (
            KERNEL,
            "        for (int64_t at = first; at < end; at += tiling_.tileElements) {\n            const int64_t left",
            "        for (int64_t at = first < 8 ? 0 : first - 8; at < end; at += tiling_.tileElements) {\n"
            "            const int64_t left",
        ),
    ),
]

GRADIENTS = [
    gradient(
        "no_meeting",
        "missing SyncAll: images are added up while others write them",
        "E-20",
        "is not ordered with",
        (GRAD_KERNEL, "        AscendC::SyncAll();\n", ""),
    ),
    gradient(
        "meeting_without_batch_mode",
        "wrong tiling: the blocks are not started together",
        "E-22",
        "SetScheduleMode",
        (GRAD_HOST, "        context->SetScheduleMode(BATCH_MODE);\n", ""),
    ),
    gradient(
        "image_stored_before_summed",
        "missing sync: an image is stored without S_MTE3",
        "E-11",
        "by pipe MTE3 does not wait for the write by pipe S",
        (GRAD_KERNEL, "        rank1::Fence<AscendC::HardEvent::S_MTE3>();\n", ""),
    ),
    gradient(
        "tile_reused",
        "missing sync: the next entries are loaded over a tile that is still read",
        "E-11",
        "by pipe MTE2 does not wait for the read by pipe S",
        (GRAD_TILES, "            Fence<AscendC::HardEvent::S_MTE2>();\n", ""),
    ),
    gradient(
        "sums_not_cleared",
        "uninitialised read: entries are added to what the buffer held",
        "E-16",
        "were never written",
        (GRAD_KERNEL, "        AscendC::Duplicate<float>(sums, 0.0f, static_cast<int32_t>(elements));\n", ""),
    ),
    gradient(
        "share_of_x_not_cut",
        "wrong tail: the last share of x is as long as the others",
        "E-17",
        "of a GlobalTensor of",
        (
            GRAD_KERNEL,
            "AddImages(at, static_cast<uint32_t>(Smaller(stop - at, ADD_ELEMENTS)));",
            "AddImages(at, ADD_ELEMENTS);",
        ),
    ),
    gradient(
        "workspace_of_one_image",
        "wrong tiling: the workspace holds a single image",
        "E-17",
        "is outside every tensor",
        (GRAD_HOST, "static_cast<std::size_t>(blocks * CeilDiv(", "static_cast<std::size_t>(CeilDiv("),
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
        "own_image_for_all",
        "logic: every core's own image is added, as often as there are cores",
        COMPARISON,
        WRONG,
        (
            GRAD_KERNEL,
            "images_[static_cast<uint64_t>(block * imageSize_ + at)]",
            "images_[static_cast<uint64_t>(AscendC::GetBlockIdx() * imageSize_ + at)]",
        ),
    ),
]

MUTANTS = [*GATHERS, *GRADIENTS]
