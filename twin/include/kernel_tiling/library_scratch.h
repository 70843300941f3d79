// Scratch of library functions that have a tiling: what the host's functions say, and what a kernel's call checks.
// The sizes are the twin's own; the toolkit's differ, so that an operator has to ask for them.
#pragma once
#include <cstdint>

namespace twin {

// A row in float, and a block for its maximum and sum.
constexpr uint64_t SoftMaxRowBytes(uint64_t columns) { return columns * 4 + 32; }

// Rows of float: the differences to the mean, and their squares.
constexpr uint32_t kLayerNormBuffers = 2;
constexpr uint64_t LayerNormRowBytes(uint64_t columns) { return columns * 4 * kLayerNormBuffers; }

// A row of float, its squares.
constexpr uint64_t RmsNormRowBytes(uint64_t columns) { return columns * 4; }
constexpr bool IsRmsNormBasicBlock(uint32_t rows, uint32_t columns) {
  return columns % 64 == 0 && columns < 2048 && rows % 8 == 0;
}

}  // namespace twin
