"""Mutants of the flags between pipes."""

from __future__ import annotations

from .sources import KERNEL, SCAN, TILE, mutant

SYNCHRONISATION = [
    mutant(
        "store_before_scalar",
        "missing sync: the scan's results are stored without S_MTE3",
        "E-11",
        "read of UB",
        (TILE, SCAN + "        Fence<AscendC::HardEvent::S_MTE3>();\n", SCAN),
    ),
    mutant(
        "part_not_waited_for",
        "missing sync: a part that stays is summed before it has come",
        "E-11",
        "by pipe S does not wait for the write by pipe MTE2",
        (KERNEL, "loaded.Wait(static_cast<uint32_t>((i - 1) % SCAN_SLOTS));", ""),
        (KERNEL, "loaded.Set(static_cast<uint32_t>(i % SCAN_SLOTS));", ""),
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
        (KERNEL, "loaded.Close(pipe_);\n    inputFree.CloseRaised(pipe_);", "inputFree.CloseRaised(pipe_);"),
    ),
]
