"""Mutants of addresses, lengths and workspace."""

from __future__ import annotations

from .sources import HOST, KERNEL, mutant

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
        (KERNEL, "outElements = tiling_.tileElements + 1;", "outElements = tiling_.tileElements;"),
    ),
    mutant(
        "part_without_its_total",
        "overflow: no room for a row's total behind the part that stays",
        "E-36",
        "is outside the buffer",
        (KERNEL, "tiling_.chunk * static_cast<int64_t>(sizeof(T))) + SLOT_BYTES);", "tiling_.chunk * 8));"),
    ),
    mutant(
        "part_too_large",
        "overflow: parts stay that the unified buffer does not hold",
        "E-03",
        "do not fit the unified buffer",
        (HOST, "+ slots <= static_cast<int64_t>(ub);", "> 0;"),
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
            "AscendC::DataCopyPad(to, x_",
            "AscendC::DataCopyPad(to[1], x_",
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
