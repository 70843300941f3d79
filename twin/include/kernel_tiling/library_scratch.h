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

// Of a gradient's row in float: by gamma, less the mean, and their product. Of the weights' gradients: two rows.
constexpr uint64_t LayerNormGradRowBytes(uint64_t columns) { return columns * 4 * 3; }
constexpr uint64_t LayerNormGradBetaRowBytes(uint64_t columns) { return columns * 4 * 2; }

// Of a part of a row in Welford's way: differences before and after, at least a repeat of each.
constexpr uint64_t kWelfordLeast = 512;
constexpr uint64_t WelfordMost(uint64_t columns) { return columns * 8 > kWelfordLeast ? columns * 8 : kWelfordLeast; }

// A row of float, its squares.
constexpr uint64_t RmsNormRowBytes(uint64_t columns) { return columns * 4; }
constexpr bool IsRmsNormBasicBlock(uint32_t rows, uint32_t columns) {
  return columns % 64 == 0 && columns < 2048 && rows % 8 == 0;
}

}  // namespace twin
