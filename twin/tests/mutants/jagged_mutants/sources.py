"""The files that the mutants of the jagged operators edit, and texts that several of them replace."""

from __future__ import annotations

from jagged_cases import TO_DENSE
from mutant import Edit, Mutant
from workshop import Operator

WRITER = "common/jagged_writer.h"
OFFSETS = "common/jagged_offsets.h"
SPLIT = "common/jagged_host.h"
DENSE = "jagged_to_padded_dense/op_kernel/jagged_to_padded_dense.cpp"
DENSE_HOST = "jagged_to_padded_dense/op_host/jagged_to_padded_dense.cpp"
JAGGED = "dense_to_jagged/op_kernel/dense_to_jagged.cpp"
JAGGED_HOST = "dense_to_jagged/op_host/dense_to_jagged.cpp"

FREE = "            queue_.FreeTensor(tile);\n"
PUSH = "            queue_.EnQue(tile);\n"
POP = "            tile = queue_.template DeQue<T>();\n"
ALLOC = "            AscendC::LocalTensor<T> tile = queue_.template AllocTensor<T>();\n"
STORE = "            AscendC::DataCopyPad(target_[targetStart_ + done], tile, burst);\n"
SET_FILL = "        AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(ready);\n"
WAIT_FILL = "        AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(ready);\n"
ODD = "AscendC::Duplicate<uint32_t>(lanes[at], high, odd, static_cast<uint8_t>(now), 1, 8);"
EVEN = "AscendC::Duplicate<uint32_t>(lanes[at], low, even, static_cast<uint8_t>(now), 1, 8);"
LIMITED_END = "first + (rest < tiling_.elementsPerCore ? rest : tiling_.elementsPerCore);"


def mutant(
    operator: Operator, name: str, fault: str, found_by: str, message: str, *edits: tuple[str, str, str]
) -> Mutant:
    prefix = "to_dense" if operator is TO_DENSE else "to_jagged"
    return Mutant(f"{prefix}_{name}", fault, operator, tuple(Edit(*e) for e in edits), found_by, message)
