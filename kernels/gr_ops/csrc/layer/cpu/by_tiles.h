#pragma once

#include "layer/cpu/rows.h"

// Products of float by AMX, whose tiles multiply bfloat16 and sum in float. A float is a sum of terms of eight bits
// each: three are all of it. Of the terms' products those are left out that are below the last bit of what is asked
// for.
namespace gr_ops::layer {
namespace {

using hstu::Vector32;
using hstu::VectorF;

constexpr ptrdiff_t kTile = 16;       // rows of a tile, and floats of one of its rows
constexpr ptrdiff_t kTileDepth = 32;  // bfloat16 of a row
constexpr ptrdiff_t kTilePairs = kTile * kTile;

constexpr ptrdiff_t tiles_of(ptrdiff_t size, ptrdiff_t tile) { return (size + tile - 1) / tile; }

// Takes a term of 16 floats out of each of two vectors, and leaves the rest in them: pairs of neighbours of a row, or,
// of two rows, pairs of what is one above the other.
template <bool Across>
inline Vector32 take_pairs(VectorF& first, VectorF& second) {
  const Vector32 a = (Vector32)first & 0xffff0000U, b = (Vector32)second & 0xffff0000U;
  first -= (VectorF)a;
  second -= (VectorF)b;
  if constexpr (Across) return a >> 16 | b;
  alignas(64) static constexpr uint16_t kUpper[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                                      33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  return (Vector32)_mm512_permutex2var_epi16((__m512i)a, _mm512_load_si512(kUpper), (__m512i)b);
}

// Pairs of a matrix [rows][columns] of floats, tile by tile, as the left operand of a product takes them (16 rows by 32
// columns each), or Across, as the right one does (32 rows by 16 columns). Turned: the other way round, as the operand
// on the other side. Along the depth of the product tiles follow each other, term after term; the matrix ends in zeros.
template <int Terms, bool Across>
void cut(const float* from, ptrdiff_t ld, ptrdiff_t rows, ptrdiff_t columns, bool turned, uint32_t* to) {
  const ptrdiff_t width = Across ? columns : rows, depth = Across ? rows : columns;
  const auto at = [&](ptrdiff_t row, ptrdiff_t column) {
    return row < rows ? load_some(from + row * ld + column, static_cast<int>(columns - column)) : VectorF{};
  };
  for (ptrdiff_t n = 0; n < width; n += kTile) {
    for (ptrdiff_t k = 0; k < depth; k += kTileDepth) {
      VectorF tile[Terms][kTile];
      for (ptrdiff_t r = 0; r < kTile; ++r) {
        VectorF first = Across ? at(k + 2 * r, n) : at(n + r, k);
        VectorF second = Across ? at(k + 2 * r + 1, n) : at(n + r, k + kTile);
        for (int t = 0; t < Terms; ++t) tile[t][r] = (VectorF)take_pairs<Across>(first, second);
      }
      for (int t = 0; t < Terms; ++t, to += kTilePairs) {
        if (turned) hstu::transpose<float>(tile[t]);
        std::memcpy(to, tile[t], sizeof(tile[t]));
      }
    }
  }
}

// The registers of a thread: what was in use before is so again behind it, without what was in the tiles.
class TileRegisters {
 public:
  TileRegisters() {
    _tile_storeconfig(&before_);
    Configuration ours{};
    ours.palette = 1;
    for (int i = 0; i < 8; ++i) {
      ours.row_bytes[i] = 64;
      ours.rows[i] = kTile;
    }
    asm volatile("" : : "r"(&ours) : "memory");  // the next line says to read 8 bytes alone
    _tile_loadconfig(&ours);
  }
  ~TileRegisters() { _tile_loadconfig(&before_); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

 private:
  struct alignas(64) Configuration {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };
  Configuration before_;
};

// c: up to 2 x 2 tiles (+)= a b, of `depth` tiles each. The numbers of tiles have to be literals.
template <int Rows, int Columns, int Left, int Right>
void multiply_tiles(ptrdiff_t depth, const uint32_t* a, const uint32_t* b, float* c, ptrdiff_t ldc, bool add) {
  constexpr int kTerms = Left > Right ? Left : Right;
  constexpr ptrdiff_t bytes = 64;
  const ptrdiff_t row = ldc * static_cast<ptrdiff_t>(sizeof(float));
  float* const below = c + kTile * ldc;
  if (add) {
    _tile_loadd(0, c, row);
    if constexpr (Columns > 1) _tile_loadd(1, c + kTile, row);
    if constexpr (Rows > 1) _tile_loadd(2, below, row);
    if constexpr (Rows > 1 && Columns > 1) _tile_loadd(3, below + kTile, row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const ptrdiff_t next_a = depth * Left * kTilePairs, next_b = depth * Right * kTilePairs;
  for (ptrdiff_t k = 0; k < depth; ++k) {
    for (int s = 0; s < Left; ++s) {
      const uint32_t* left = a + (k * Left + s) * kTilePairs;
      _tile_loadd(4, left, bytes);
      if constexpr (Rows > 1) _tile_loadd(5, left + next_a, bytes);
      for (int t = 0; t < Right && s + t < kTerms; ++t) {
        const uint32_t* right = b + (k * Right + t) * kTilePairs;
        _tile_loadd(6, right, bytes);
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (Rows > 1) _tile_dpbf16ps(2, 5, 6);
        if constexpr (Columns > 1) {
          _tile_loadd(7, right + next_b, bytes);
          _tile_dpbf16ps(1, 4, 7);
          if constexpr (Rows > 1) _tile_dpbf16ps(3, 5, 7);
        }
      }
    }
  }
  _tile_stored(0, c, row);
  if constexpr (Columns > 1) _tile_stored(1, c + kTile, row);
  if constexpr (Rows > 1) _tile_stored(2, below, row);
  if constexpr (Rows > 1 && Columns > 1) _tile_stored(3, below + kTile, row);
}

// How rows are stored and multiplied, as ByVectors: Left terms of what is computed, Right ones of the weight.
template <class StoredType, int Left, int Right>
class ByTiles {
 public:
  using Stored = StoredType;
  using Sum = float;
  static constexpr bool kPaired = false;
  static constexpr int kBlock = 128;  // tokens at a time, for which the weight is read once

  ByTiles(Arena& arena, ptrdiff_t widest) {
    left_ = arena.take<uint32_t>(kBlock * tiles_of(widest, kTileDepth) * kTile * Left);
    right_ = arena.take<uint32_t>(kBlock * kTile * Left);
  }

  static size_t packed_bytes(ptrdiff_t depth, ptrdiff_t width) {
    return tiles_of(width, kTile) * tiles_of(depth, kTileDepth) * Right * kTilePairs * sizeof(uint32_t);
  }

  static void pack(const void* from, ptrdiff_t depth, ptrdiff_t width, bool turned, void* to) {
    const auto* matrix = static_cast<const float*>(from);
    if (turned) return cut<Right, false>(matrix, depth, width, depth, true, static_cast<uint32_t*>(to));
    cut<Right, true>(matrix, width, depth, width, false, static_cast<uint32_t*>(to));
  }

  template <typename Place, typename Body>
  void multiply_panels(int rows, ptrdiff_t depth, ptrdiff_t width, const float* a, ptrdiff_t lda, const void* packed,
                       ptrdiff_t ldc, Prefetch& ahead, const Place& place, const Body& body) const {
    cut<Left, false>(a, lda, rows, depth, false, left_);
    const TileRegisters registers;
    const ptrdiff_t steps = tiles_of(depth, kTileDepth), end = tiles_of(width, kTile);
    for (ptrdiff_t n = 0; n < end; n += hstu::kColumns) {
      const ptrdiff_t columns = end - n < hstu::kColumns ? end - n : hstu::kColumns;
      float* c = place(n * kTile);
      gemm<Right>(tiles_of(rows, kTile), columns, steps,
                  static_cast<const uint32_t*>(packed) + n * steps * Right * kTilePairs, c, ldc, false, ahead);
      body(n, static_cast<int>(columns), c);
    }
  }

  void multiply(int rows, ptrdiff_t depth, ptrdiff_t width, const float* a, ptrdiff_t lda, const void* packed, float* c,
                Prefetch& ahead) const {
    multiply_panels(
        rows, depth, width, a, lda, packed, padded<float>(width), ahead, [&](ptrdiff_t column) { return c + column; },
        [](ptrdiff_t, int, const float*) {});
  }

  void multiply_add_turned(int rows, ptrdiff_t m, ptrdiff_t width, const float* a, ptrdiff_t lda, const float* b,
                           void* c, Prefetch& ahead) const {
    const ptrdiff_t ld = padded<float>(width);
    cut<Left, true>(a, lda, rows, m, true, left_);
    const TileRegisters registers;
    for (ptrdiff_t n = 0; n < width; n += 2 * kTile) {
      const ptrdiff_t columns = width - n < 2 * kTile ? width - n : 2 * kTile;
      cut<Left, true>(b + n, ld, rows, columns, false, right_);
      gemm<Left>(tiles_of(m, kTile), tiles_of(columns, kTile), tiles_of(rows, kTileDepth), right_,
                 static_cast<float*>(c) + n, ld, true, ahead);
    }
  }

 private:
  // c [rows][columns] (+)= left_ b, all in tiles.
  template <int Terms>
  void gemm(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, const uint32_t* b, float* c, ptrdiff_t ldc, bool add,
            Prefetch& ahead) const {
    asm volatile("" ::: "memory");  // loads of tiles do not say what they read
    for (ptrdiff_t n = 0; n < columns; n += 2) {
      const uint32_t* right = b + n * depth * Terms * kTilePairs;
      for (ptrdiff_t m = 0; m < rows; m += 2) {
        const uint32_t* left = left_ + m * depth * Left * kTilePairs;
        float* to = c + m * kTile * ldc + n * kTile;
        const bool two_rows = m + 1 < rows, two_columns = n + 1 < columns;
        if (two_rows && two_columns) {
          multiply_tiles<2, 2, Left, Terms>(depth, left, right, to, ldc, add);
        } else if (two_rows) {
          multiply_tiles<2, 1, Left, Terms>(depth, left, right, to, ldc, add);
        } else if (two_columns) {
          multiply_tiles<1, 2, Left, Terms>(depth, left, right, to, ldc, add);
        } else {
          multiply_tiles<1, 1, Left, Terms>(depth, left, right, to, ldc, add);
        }
        ahead.step();
      }
    }
  }

  uint32_t *left_, *right_;
};

}  // namespace
}  // namespace gr_ops::layer
