#pragma once

#include <cstddef>

#include "hstu/cpu/prefetch.h"
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

#if defined(__AVX512F__)
// Half a vector of float, of which a core multiplies two in the time of one.
struct HalfWidth {
  typedef float Vector __attribute__((vector_size(32)));
  using Stored = float;
  using Sum = float;
  using Operand = float;
  static constexpr int kGroup = 1;
  static constexpr int kLanes = 8;
  static inline Vector broadcast(const Operand* from) { return (Vector)_mm256_set1_ps(*from); }
  static inline Vector fetch(const Operand* from) { return (Vector)_mm256_loadu_ps(from); }
  static inline void multiply_add(Vector& sum, Vector a, Vector b) { sum += a * b; }
};
#endif

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
  alignas(64) static constexpr uint16_t kZip[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                    8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh((__m512)odd, (__m512)even);
  return (VectorF)_mm512_permutexvar_epi16(_mm512_load_si512(kZip), halves);
}
#endif

// Sums are kept in registers: kRows(columns) rows of so many vectors. Every one of them divides kSubtileKeys, and there
// are as many sums as the latency of a multiply-add asks for.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kColumns = 4;  // 32 registers
constexpr int rows_of(int columns) { return columns == 4 ? 6 : columns == 1 ? 16 : 8; }
#else
constexpr int kColumns = 2;  // 16 registers
constexpr int rows_of(int columns) { return columns == 2 ? 6 : 8; }
#endif

// c[r][n] (+)= sum over k of a(r, k) * b[k][n] for Rows rows and Columns vectors. Strides in elements of their arrays.
// Transposed: a(r, k) is a[k * lda + r], else a[r * lda + k].
template <class P, bool Transposed, int Rows, int Columns>
void micro(ptrdiff_t depth, const typename P::Operand* a, ptrdiff_t lda, const typename P::Operand* b, ptrdiff_t ldb,
           typename P::Sum* c, ptrdiff_t ldc, bool add) {
  using Vector = typename P::Vector;
  Vector sums[Rows][Columns];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < Columns; ++n) sums[r][n] = Vector{};
  }
  for (ptrdiff_t k = 0; k < depth; ++k) {
    Vector columns[Columns];
#pragma GCC unroll 4
    for (int n = 0; n < Columns; ++n) columns[n] = P::fetch(b + k * ldb + n * P::kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const Vector factor = P::broadcast(Transposed ? a + k * lda + r : a + r * lda + k);
#pragma GCC unroll 4
      for (int n = 0; n < Columns; ++n) P::multiply_add(sums[r][n], factor, columns[n]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < Columns; ++n) {
      typename P::Sum* to = c + r * ldc + n * P::kLanes;
      Vector before{};
      if (add) std::memcpy(&before, to, sizeof(before));
      const Vector after = add ? before + sums[r][n] : sums[r][n];
      std::memcpy(to, &after, sizeof(after));
    }
  }
}

// The rows that are left, in the fewest pieces of at most Rows.
template <class P, bool Transposed, int Rows, int Columns>
void gemm_rows(int rows, ptrdiff_t depth, const typename P::Operand* a, ptrdiff_t lda, const typename P::Operand* b,
               ptrdiff_t ldb, typename P::Sum* c, ptrdiff_t ldc, bool add, Prefetch& ahead) {
  const ptrdiff_t step = Transposed ? 1 : lda;
  while (rows >= Rows) {
    micro<P, Transposed, Rows, Columns>(depth, a, lda, b, ldb, c, ldc, add);
    ahead.step();
    a += Rows * step;
    c += Rows * ldc;
    rows -= Rows;
  }
  if constexpr (Rows > 1) {
    constexpr int fewer = Rows == 6 ? 4 : Rows / 2;
    if (rows > 0) gemm_rows<P, Transposed, fewer, Columns>(rows, depth, a, lda, b, ldb, c, ldc, add, ahead);
  }
}

// c [rows][vectors * kLanes] (+)= a b. depth counts Operands. `ahead`: what is asked for meanwhile.
template <class P, bool Transposed, int Columns = kColumns>
void gemm(int rows, int vectors, ptrdiff_t depth, const typename P::Operand* a, ptrdiff_t lda,
          const typename P::Operand* b, ptrdiff_t ldb, typename P::Sum* c, ptrdiff_t ldc, bool add, Prefetch& ahead) {
  while (vectors >= Columns) {
    gemm_rows<P, Transposed, rows_of(Columns), Columns>(rows, depth, a, lda, b, ldb, c, ldc, add, ahead);
    b += Columns * P::kLanes;
    c += Columns * P::kLanes;
    vectors -= Columns;
  }
  if constexpr (Columns > 1) {
    if (vectors > 0) gemm<P, Transposed, Columns - 1>(rows, vectors, depth, a, lda, b, ldb, c, ldc, add, ahead);
  }
}

}  // namespace
}  // namespace gr_ops::hstu
