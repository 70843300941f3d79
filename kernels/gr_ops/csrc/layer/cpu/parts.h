#pragma once

#include "layer/cpu/rows.h"

// Where the vectors of a row of all parts together lie in the parts, which end anywhere in a vector.
namespace gr_ops::layer {
namespace {

// Lanes [from, to) of a vector of row 0: lane 0 would lie at `at`; of row r `stride` elements further for each row.
template <typename T>
struct Piece {
  uintptr_t at;
  ptrdiff_t stride;
  int from, to;

  T* of_row(ptrdiff_t row) const { return reinterpret_cast<T*>(at + row * stride * sizeof(T)); }
};

template <typename T>
class Pieces {
 public:
  using Vector = decltype(load(static_cast<const T*>(nullptr)));
  static constexpr int kLanes = sizeof(Vector) / (sizeof(T) == 8 ? 8 : 4);

  // No memory is touched with a null arena.
  void allocate(Arena& arena, const Projection& p) {
    pieces_ = arena.take<Piece<T>>(static_cast<size_t>(vectors_of(p.width)) + p.parts);
    starts_ = arena.take<int>(static_cast<size_t>(vectors_of(p.width)) + 1);
  }

  void set(const Projection& p, const void* const* parts) {
    constexpr ptrdiff_t lanes = kLanes;
    int count = 0;
    for (ptrdiff_t v = 0; v < vectors_of(p.width); ++v) {
      starts_[v] = count;
      ptrdiff_t begin = 0;
      for (int part = 0; part < p.parts; begin += p.split[part++]) {
        const ptrdiff_t from = larger(begin, v * lanes), to = smaller(begin + p.split[part], (v + 1) * lanes);
        if (from >= to) continue;
        const auto at =
            reinterpret_cast<uintptr_t>(parts[part]) + (v * lanes - begin) * static_cast<ptrdiff_t>(sizeof(T));
        pieces_[count++] = {at, p.split[part], static_cast<int>(from - v * lanes), static_cast<int>(to - v * lanes)};
      }
    }
    starts_[vectors_of(p.width)] = count;
  }

  void put(ptrdiff_t vector, ptrdiff_t row, Vector value) const {
    for (int i = starts_[vector]; i < starts_[vector + 1]; ++i) {
      store_lanes(pieces_[i].of_row(row), value, pieces_[i].from, pieces_[i].to);
    }
  }

  // 0 where no part has a column.
  Vector get(ptrdiff_t vector, ptrdiff_t row) const {
    Vector value{};
    for (int i = starts_[vector]; i < starts_[vector + 1]; ++i) {
      load_lanes(pieces_[i].of_row(row), value, pieces_[i].from, pieces_[i].to);
    }
    return value;
  }

 private:
  static ptrdiff_t vectors_of(ptrdiff_t width) { return (width + kLanes - 1) / kLanes; }
  static ptrdiff_t smaller(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
  static ptrdiff_t larger(ptrdiff_t a, ptrdiff_t b) { return a < b ? b : a; }

  static void store_lanes(T* to, Vector value, int first, int last) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) {
      _mm512_mask_storeu_ps(to, lanes_between(first, last), (__m512)value);
      return;
    }
#endif
    if (first == 0 && last == kLanes) return store(to, value);
    T lanes[kLanes];
    store(lanes, value);
    std::memcpy(to + first, lanes + first, (last - first) * sizeof(T));
  }

  static void load_lanes(const T* from, Vector& value, int first, int last) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) {
      value = (Vector)_mm512_mask_loadu_ps((__m512)value, lanes_between(first, last), from);
      return;
    }
#endif
    if (first == 0 && last == kLanes) {
      value = load(from);
      return;
    }
    T lanes[kLanes];
    store(lanes, value);
    std::memcpy(lanes + first, from + first, (last - first) * sizeof(T));
    value = load(lanes);
  }

#if defined(__AVX512F__)
  static __mmask16 lanes_between(int first, int last) { return static_cast<__mmask16>((1U << last) - (1U << first)); }
#endif

  Piece<T>* pieces_ = nullptr;
  int* starts_ = nullptr;  // of each vector's pieces
};

}  // namespace
}  // namespace gr_ops::layer
