#pragma once

#include <cstddef>

#include "hstu/cpu/vector.h"

// Columns of a product that are left beyond whole vectors, where they are few: a vector of them would multiply mostly
// padding. They are products of rows with rows, along the depth.
namespace gr_ops::hstu {
namespace {

constexpr int kMostTail = 4;

template <typename T>
constexpr int tail_of(ptrdiff_t width) {
  const auto left = static_cast<int>(width % Lanes<T>::count);
  return width > Lanes<T>::count && left <= kMostTail && left < Lanes<T>::count / 2 ? left : 0;
}

template <typename T>
inline T sum_of(typename Lanes<T>::Vector vector) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_reduce_add_ps((__m512)vector);
#endif
  T lanes[Lanes<T>::count];
  store(lanes, vector);
  for (int half = Lanes<T>::count / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// Lanes of two vectors that hold sums in groups of Group lanes: the lower half of each group, or the upper one.
template <typename T, int Group>
inline typename Lanes<T>::Vector halves(typename Lanes<T>::Vector a, typename Lanes<T>::Vector b, bool upper) {
  typename Lanes<T>::IntVector from;
  for (int i = 0; i < Lanes<T>::count; ++i)
    from[i] = i / (Group / 2) * Group + i % (Group / 2) + (upper ? Group / 2 : 0);
  return __builtin_shuffle(a, b, from);
}

// sum_of each of so many vectors, a power of two, in the first lanes of the result: the same additions in the same
// order, a third of the instructions.
template <typename T, int Group, int Count>
inline typename Lanes<T>::Vector sums_of(const typename Lanes<T>::Vector (&vectors)[Count]) {
  using Vector = typename Lanes<T>::Vector;
  if constexpr (Group == 1) {
    return vectors[0];
  } else {
    constexpr int fewer = (Count + 1) / 2;
    Vector folded[fewer];
#pragma GCC unroll 8
    for (int i = 0; i < fewer; ++i) {
      const Vector a = vectors[2 * i], b = vectors[Count == 1 ? 0 : 2 * i + 1];
      folded[i] = halves<T, Group>(a, b, false) + halves<T, Group>(a, b, true);
    }
    return sums_of<T, Group / 2>(folded);
  }
}

// Each vector's sum.
template <typename T, int Count>
inline void store_sums(const typename Lanes<T>::Vector (&vectors)[Count], T (&sums)[Count]) {
  constexpr int lanes = Lanes<T>::count;
  constexpr int even = Count & -Count;  // the largest power of two that divides it
  constexpr int together = even < lanes ? even : lanes;
#pragma GCC unroll 16
  for (int first = 0; first < Count; first += together) {
    if constexpr (together == 1) {
      sums[first] = sum_of<T>(vectors[first]);
    } else {
      typename Lanes<T>::Vector some[together];
#pragma GCC unroll 16
      for (int i = 0; i < together; ++i) some[i] = vectors[first + i];
      const auto found = sums_of<T, lanes>(some);
      std::memcpy(sums + first, &found, together * sizeof(T));
    }
  }
}

template <typename T, int Rows, int Columns>
void add_tail_rows(ptrdiff_t depth, const T* a, ptrdiff_t lda, const T* b, ptrdiff_t ldb, T* c, ptrdiff_t ldc) {
  using Vector = typename Lanes<T>::Vector;
  Vector sums[Rows * Columns];
#pragma GCC unroll 16
  for (int i = 0; i < Rows * Columns; ++i) sums[i] = Vector{};
  for (ptrdiff_t k = 0; k < depth; k += Lanes<T>::count) {
    Vector column[Columns];
#pragma GCC unroll 4
    for (int n = 0; n < Columns; ++n) column[n] = load(b + n * ldb + k);
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      const Vector part = load_some(a + r * lda + k, static_cast<int>(depth - k));
#pragma GCC unroll 4
      for (int n = 0; n < Columns; ++n) sums[r * Columns + n] += part * column[n];
    }
  }
  T totals[Rows * Columns];
  store_sums<T>(sums, totals);
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < Columns; ++n) c[r * ldc + n] += totals[r * Columns + n];
  }
}

// c [rows][columns] += a [rows][depth] times b [columns][depth], whose rows go on to whole vectors of finite numbers.
template <typename T, int Columns = kMostTail>
void add_tail(int rows, int columns, ptrdiff_t depth, const T* a, ptrdiff_t lda, const T* b, ptrdiff_t ldb, T* c,
              ptrdiff_t ldc) {
  if constexpr (Columns > 1) {
    if (columns < Columns) return add_tail<T, Columns - 1>(rows, columns, depth, a, lda, b, ldb, c, ldc);
  }
  int row = 0;
  for (; row + 4 <= rows; row += 4) {
    add_tail_rows<T, 4, Columns>(depth, a + row * lda, lda, b, ldb, c + row * ldc, ldc);
  }
  for (; row < rows; ++row) add_tail_rows<T, 1, Columns>(depth, a + row * lda, lda, b, ldb, c + row * ldc, ldc);
}

}  // namespace
}  // namespace gr_ops::hstu
