"""The files that the mutants of AsynchronousCompleteCumsum edit, and texts that several of them replace."""

from __future__ import annotations

from jagged_cases import CUMSUM
from mutant import Edit, Mutant

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
