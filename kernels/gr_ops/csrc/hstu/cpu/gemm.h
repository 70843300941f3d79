#pragma once

#include <cstddef>

#include "hstu/cpu/vector.h"

// What differs between element types, and the matrix product in registers.
namespace gr_ops::hstu {
namespace {

// Stored: type in memory. Sum: type of scores and sums. Operand: what a product multiplies; kGroup neighbours of the
// contracted dimension are one Operand.
template <typename StoredType, typename SumType>
struct Plain {
  using Stored = StoredType;
  using Sum = SumType;
  using Operand = SumType;
  using Vector = typename Lanes<Sum>::Vector;
  static constexpr int kGroup = 1;
  static constexpr int kLanes = Lanes<Sum>::count;
  // The operand of a product is the stored value itself: no copy is needed.
  static constexpr bool kDirect = sizeof(Stored) == sizeof(Sum);
  static constexpr bool kPrecise = true;
  static inline Vector broadcast(const Operand* from) { return splat(*from); }
  static inline Vector fetch(const Operand* from) { return load(from); }
  static inline void multiply_add(Vector& sum, Vector a, Vector b) { sum += a * b; }
};

#if defined(__AVX512BF16__)
// Pairs of bfloat16, multiplied exactly and summed in float.
struct Paired {
  using Stored = BFloat16;
  using Sum = float;
  using Operand = uint32_t;
  using Vector = VectorF;
  static constexpr int kGroup = 2;
  static constexpr int kLanes = 16;
  static constexpr bool kDirect = true;
  static constexpr bool kPrecise = false;
  static inline Vector broadcast(const Operand* from) {
    int pair;
    std::memcpy(&pair, from, sizeof(pair));  // rows of an odd number of elements: not aligned
    return (Vector)_mm512_set1_epi32(pair);
  }
  static inline Vector fetch(const Operand* from) { return (Vector)_mm512_loadu_si512(from); }
  static inline void multiply_add(Vector& sum, Vector a, Vector b) {
    sum = (Vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
  }
};
#endif

// Stores that lay weights out as the left operand of a product, and as pairs of neighbouring keys.
inline void put_row(float* to, VectorF value) { store(to, value); }
inline void put_row(double* to, VectorD value) { store(to, value); }
inline void put_row(uint32_t* to, VectorF value) { store(reinterpret_cast<BFloat16*>(to), value); }

#if defined(__AVX512BF16__)
inline VectorF pair(VectorF even, VectorF odd) {
  const __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)even));
  const __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)odd));
  return (VectorF)_mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}
#endif

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kColumns = 4;  // 32 registers: 6 x 4 sums, 4 columns, 1 broadcast
#else
constexpr int kColumns = 2;  // 16 registers
#endif
constexpr int kRows = 6;

// c[r][n] (+)= sum over k of a(r, k) * b[k][n] for Rows rows and Columns vectors. Strides in elements of their arrays.
// Transposed: a(r, k) is a[k * lda + r], else a[r * lda + k].
template <class P, bool Transposed, int Rows, int Columns>
void micro(ptrdiff_t depth, const typename P::Operand* a, ptrdiff_t lda, const typename P::Operand* b, ptrdiff_t ldb,
           typename P::Sum* c, ptrdiff_t ldc, bool add) {
  using Vector = typename P::Vector;
  Vector sums[Rows][Columns];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < Columns; ++n) sums[r][n] = Vector{};
  }
  for (ptrdiff_t k = 0; k < depth; ++k) {
    Vector columns[Columns];
#pragma GCC unroll 8
    for (int n = 0; n < Columns; ++n) columns[n] = P::fetch(b + k * ldb + n * P::kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const Vector factor = P::broadcast(Transposed ? a + k * lda + r : a + r * lda + k);
#pragma GCC unroll 8
      for (int n = 0; n < Columns; ++n) P::multiply_add(sums[r][n], factor, columns[n]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < Columns; ++n) {
      typename P::Sum* to = c + r * ldc + n * P::kLanes;
      store(to, add ? load(to) + sums[r][n] : sums[r][n]);
    }
  }
}

template <class P, bool Transposed, int Columns>
void gemm_columns(int rows, ptrdiff_t depth, const typename P::Operand* a, ptrdiff_t lda, const typename P::Operand* b,
                  ptrdiff_t ldb, typename P::Sum* c, ptrdiff_t ldc, bool add) {
  const ptrdiff_t step = Transposed ? 1 : lda;
  int r = 0;
  for (; r + kRows <= rows; r += kRows) {
    micro<P, Transposed, kRows, Columns>(depth, a + r * step, lda, b, ldb, c + r * ldc, ldc, add);
  }
  if (rows - r >= 4) {
    micro<P, Transposed, 4, Columns>(depth, a + r * step, lda, b, ldb, c + r * ldc, ldc, add);
    r += 4;
  }
  if (rows - r >= 2) {
    micro<P, Transposed, 2, Columns>(depth, a + r * step, lda, b, ldb, c + r * ldc, ldc, add);
    r += 2;
  }
  if (rows - r >= 1) {
    micro<P, Transposed, 1, Columns>(depth, a + r * step, lda, b, ldb, c + r * ldc, ldc, add);
  }
}

// c [rows][vectors * kLanes] (+)= a b. depth counts Operands.
template <class P, bool Transposed>
void gemm(int rows, int vectors, ptrdiff_t depth, const typename P::Operand* a, ptrdiff_t lda,
          const typename P::Operand* b, ptrdiff_t ldb, typename P::Sum* c, ptrdiff_t ldc, bool add) {
  while (vectors >= kColumns) {
    gemm_columns<P, Transposed, kColumns>(rows, depth, a, lda, b, ldb, c, ldc, add);
    b += kColumns * P::kLanes;
    c += kColumns * P::kLanes;
    vectors -= kColumns;
  }
  if constexpr (kColumns > 2) {
    if (vectors >= 2) {
      gemm_columns<P, Transposed, 2>(rows, depth, a, lda, b, ldb, c, ldc, add);
      b += 2 * P::kLanes;
      c += 2 * P::kLanes;
      vectors -= 2;
    }
  }
  if (vectors >= 1) gemm_columns<P, Transposed, 1>(rows, depth, a, lda, b, ldb, c, ldc, add);
}

}  // namespace
}  // namespace gr_ops::hstu
