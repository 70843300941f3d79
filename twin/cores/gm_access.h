// What every access to global memory goes through.
#pragma once
#include <cstdint>

#include "core_state.h"

namespace twin {

// The tensor that an access lies in; ends the launch where there is none, or where it may not be written.
const GmExtent& GmExtentAt(Core& core, const void* address, uint64_t bytes, bool write);

// For the order between cores.
void RecordGm(Core& core, const void* address, uint64_t bytes, bool write);

// Of `rows` stretches, for the emulated L2.
void AskGm(CoreState& s, const void* address, uint64_t rows, uint64_t bytes, uint64_t pitch, bool read, bool write);

}  // namespace twin
