#pragma once

#include "hstu/cpu/pack.h"

// A tile of a bias or of the user's mask, turned to [key][query] as the scores are.
namespace gr_ops::hstu {
namespace {

struct Byte {
  uint8_t bits;
};

inline float number(float value) { return value; }
inline double number(double value) { return value; }
inline float number(Half value) { return widen(value); }
inline float number(BFloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}
inline float number(Byte value) { return value.bits; }

template <typename Sum, typename Stored>
inline typename Lanes<Sum>::Vector load_as(const Stored* from, int n) {
  if constexpr (sizeof(Stored) > 1 && (sizeof(Stored) == 8) == (sizeof(Sum) == 8)) {
    return load_some(from, n);
  } else {
    typename Lanes<Sum>::Vector result{};
    for (int i = 0; i < smaller(n, Lanes<Sum>::count); ++i) result[i] = static_cast<Sum>(number(from[i]));
    return result;
  }
}

template <typename Sum, typename Stored>
void turn_tile(const Stored* from, ptrdiff_t side, int queries, int keys, Sum* to) {
  constexpr int lanes = Lanes<Sum>::count;
  for (int i = 0; i < queries; i += lanes) {
    for (int j = 0; j < keys; j += lanes) {
      typename Lanes<Sum>::Vector rows[lanes];
      for (int r = 0; r < lanes; ++r) {
        rows[r] = i + r < queries ? load_as<Sum>(from + (i + r) * side + j, keys - j) : typename Lanes<Sum>::Vector{};
      }
      transpose<Sum>(rows);
      for (int r = 0; r < lanes; ++r) store(to + static_cast<ptrdiff_t>(j + r) * kQueryBlock + i, rows[r]);
    }
  }
}

// Rows [position, position + queries), columns [key, key + keys) of a square; `to` has kKeyTile rows.
template <typename Sum>
void load_tile(const void* square, Element element, ptrdiff_t side, int position, int queries, int key, int keys,
               Sum* to) {
  const ptrdiff_t start = position * side + key;
  switch (element) {
    case Element::Float:
      return turn_tile(static_cast<const float*>(square) + start, side, queries, keys, to);
    case Element::Double:
      return turn_tile(static_cast<const double*>(square) + start, side, queries, keys, to);
    case Element::Half:
      return turn_tile(static_cast<const Half*>(square) + start, side, queries, keys, to);
    case Element::BFloat16:
      return turn_tile(static_cast<const BFloat16*>(square) + start, side, queries, keys, to);
    case Element::Byte:
      return turn_tile(static_cast<const Byte*>(square) + start, side, queries, keys, to);
  }
}

template <typename Stored>
struct ElementOf;
template <>
struct ElementOf<float> {
  static constexpr Element value = Element::Float;
};
template <>
struct ElementOf<double> {
  static constexpr Element value = Element::Double;
};
template <>
struct ElementOf<Half> {
  static constexpr Element value = Element::Half;
};
template <>
struct ElementOf<BFloat16> {
  static constexpr Element value = Element::BFloat16;
};

}  // namespace
}  // namespace gr_ops::hstu
