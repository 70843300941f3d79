#pragma once

#include <cstdint>

// The numbers that stochastic rounding draws: 16 bits for each column of each row, a function of a seed, the row and
// the column alone, so that results depend neither on threads nor on the order of rows. A row and a column have a word
// of 64 hashed bits each:
//   hash   = (row.term + column.term + (row.factor * column.factor >> 10)) mod 2^15
//   number = (row.last + column.last + (hash * hash >> 7)) mod 2^16
// The last terms make the numbers uniform, and those of any two elements independent; the square keeps columns (and
// rows) with like factors apart within one seed. The NPU's operator computes the same ones (op_kernel/row_rounding.h):
// nothing reaches 2^31.
namespace row_math {

// The finaliser of SplitMix64.
inline uint64_t scrambled(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline uint64_t drawn_word(uint64_t seed, uint64_t number) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
  return scrambled(scrambled(seed + kGolden) ^ (number + kGolden));
}

constexpr int kProductShift = 10;
constexpr int kSquareShift = 7;

inline uint32_t factor_of(uint64_t word) { return static_cast<uint32_t>(word & 0x7fffu); }
inline uint32_t term_of(uint64_t word) { return static_cast<uint32_t>(word >> 16 & 0xffffu); }
inline uint32_t last_of(uint64_t word) { return static_cast<uint32_t>(word >> 32 & 0xffffu); }

// Seeds of the two kinds of words.
inline uint64_t row_word(uint64_t seed, int64_t start) { return drawn_word(seed, static_cast<uint64_t>(start)); }
inline uint64_t column_word(uint64_t seed, int64_t column) { return drawn_word(~seed, static_cast<uint64_t>(column)); }

}  // namespace row_math
