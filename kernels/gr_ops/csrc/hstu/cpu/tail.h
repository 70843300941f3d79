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

template <typename T, int Rows, int Columns>
void add_tail_rows(ptrdiff_t depth, const T* a, ptrdiff_t lda, const T* b, ptrdiff_t ldb, T* c, ptrdiff_t ldc) {
  using Vector = typename Lanes<T>::Vector;
  Vector sums[Rows][Columns];
  for (auto& row : sums) {
    for (Vector& sum : row) sum = Vector{};
  }
  for (ptrdiff_t k = 0; k < depth; k += Lanes<T>::count) {
    Vector column[Columns];
#pragma GCC unroll 4
    for (int n = 0; n < Columns; ++n) column[n] = load(b + n * ldb + k);
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      const Vector part = load_some(a + r * lda + k, static_cast<int>(depth - k));
#pragma GCC unroll 4
      for (int n = 0; n < Columns; ++n) sums[r][n] += part * column[n];
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int n = 0; n < Columns; ++n) c[r * ldc + n] += sum_of<T>(sums[r][n]);
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
