// How a tile is cut into strips. The cube is asked for the next tile's scores once the first half of a tile is done, so
// that they and the vector unit's work on the second half overlap: a tile that fits the unified buffer whole has two
// strips, too.
#pragma once
#include <cstdint>

namespace hstu {

// Rows of a strip of a tile of `rows`, of which `fits` fit at once: as few strips as give two equal halves.
__aicore__ inline int64_t RowsOfStrip(int64_t rows, int64_t fits) {
  const int64_t half = (rows + 1) / 2;
  const int64_t strips = (half + fits - 1) / fits;
  return (half + strips - 1) / strips;
}

// Rows of the first half of a tile's strips, of `atOnce` rows each.
__aicore__ inline int64_t HalfOfStrips(int64_t rows, int64_t atOnce) {
  const int64_t strips = (rows + atOnce - 1) / atOnce;
  const int64_t half = (strips + 1) / 2 * atOnce;
  return half < rows ? half : rows;
}

}  // namespace hstu
