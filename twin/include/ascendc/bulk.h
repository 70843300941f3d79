// Elementwise loops that are worth compiling for each instruction set.
#pragma once
#include <cstdint>

namespace twin {

void ExpFloats(const float* from, float* to, uint64_t count);
void WidenHalf(const uint16_t* from, float* to, uint64_t count);
void WidenBfloat16(const uint16_t* from, float* to, uint64_t count);
void NarrowHalf(const float* from, uint16_t* to, uint64_t count);  // to nearest, ties to even
void NarrowBfloat16(const float* from, uint16_t* to, uint64_t count);

}  // namespace twin
