#pragma once

#include "layer/cpu/rows.h"

// Products by vectors, for any instruction set.
namespace gr_ops::layer {
namespace {

template <typename T>
constexpr ptrdiff_t tail_of(ptrdiff_t depth, ptrdiff_t width) {
  return depth >= Lanes<T>::count ? hstu::tail_of<T>(width) : 0;
}

// Panels of kColumns vectors, the last one narrower, each [depth][panel]: a product reads one from end to end. Behind
// them columns of the tail, each [padded(depth)].
template <typename T>
void pack_panels(const void* from, ptrdiff_t depth, ptrdiff_t width, bool turned, void* to) {
  constexpr ptrdiff_t lanes = Lanes<T>::count;
  const auto* matrix = static_cast<const T*>(from);
  auto* out = static_cast<T*>(to);
  const auto at = [&](ptrdiff_t k, ptrdiff_t n) { return turned ? matrix[n * depth + k] : matrix[k * width + n]; };
  const ptrdiff_t whole = width - tail_of<T>(depth, width);
  for (ptrdiff_t first = 0; first < whole; first += hstu::kColumns * lanes) {
    const ptrdiff_t left = padded<T>(whole) - first;
    const ptrdiff_t panel = left < hstu::kColumns * lanes ? left : hstu::kColumns * lanes;
    for (ptrdiff_t k = 0; k < depth; ++k) {
      for (ptrdiff_t n = first; n < first + panel; ++n) *out++ = n < whole ? at(k, n) : T{0};
    }
  }
  for (ptrdiff_t n = whole; n < width; ++n) {
    for (ptrdiff_t k = 0; k < padded<T>(depth); ++k) *out++ = k < depth ? at(k, n) : T{0};
  }
}

// Whether of the last vector of so many columns no more than the first half is used.
template <typename T>
constexpr bool ends_in_half(ptrdiff_t columns) {
  return Lanes<T>::count == 16 && columns % 16 > 0 && columns % 16 <= 8;
}

// gemm of so many columns, of which the last ones may be half a vector: what is behind them in c stays as it is.
template <typename T, bool Transposed>
void multiply_columns(int rows, ptrdiff_t columns, ptrdiff_t depth, const T* a, ptrdiff_t lda, const T* b,
                      ptrdiff_t ldb, T* c, ptrdiff_t ldc, bool add, Prefetch& ahead) {
  int vectors = static_cast<int>(padded<T>(columns) / Lanes<T>::count);
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    if (ends_in_half<T>(columns)) {
      const ptrdiff_t last = --vectors * Lanes<T>::count;
      hstu::gemm<hstu::HalfWidth, Transposed, 1>(rows, 1, depth, a, lda, b + last, ldb, c + last, ldc, add, ahead);
    }
  }
#endif
  hstu::gemm<hstu::Plain<T, T>, Transposed>(rows, vectors, depth, a, lda, b, ldb, c, ldc, add, ahead);
}

// How rows are stored and multiplied. Scratch memory of products is taken for rows of `widest` elements.
template <class StoredType, typename SumType>
class ByVectors {
 public:
  using Stored = StoredType;
  using Sum = SumType;
  static constexpr bool kPaired = false;  // see ByPairs
  static constexpr int kBlock = 64;       // tokens at a time: all that belongs to them stays in the second-level cache

  ByVectors(Arena& /*arena*/, ptrdiff_t /*widest*/) {}

  static size_t packed_bytes(ptrdiff_t depth, ptrdiff_t width) { return depth * padded<Sum>(width) * sizeof(Sum); }

  static void pack(const void* from, ptrdiff_t depth, ptrdiff_t width, bool turned, void* to) {
    pack_panels<Sum>(from, depth, width, turned, to);
  }

  // a [rows][depth] times a packed matrix, panel by panel: body(first vector, vectors, c) finds each one in c
  // [rows][ldc], which is where place(first column) is.
  template <typename Place, typename Body>
  void multiply_panels(int rows, ptrdiff_t depth, ptrdiff_t width, const Sum* a, ptrdiff_t lda, const void* packed,
                       ptrdiff_t ldc, Prefetch& ahead, const Place& place, const Body& body) const {
    constexpr ptrdiff_t lanes = Lanes<Sum>::count;
    const ptrdiff_t tail = tail_of<Sum>(depth, width), end = padded<Sum>(width - tail);
    const auto* panel = static_cast<const Sum*>(packed);
    for (ptrdiff_t n = 0; n < end;) {
      const ptrdiff_t left = (end - n) / lanes, columns = width - tail - n;
      const int vectors = static_cast<int>(left < hstu::kColumns ? left : hstu::kColumns);
      Sum* c = place(n);
      multiply_columns<Sum, false>(rows, left <= hstu::kColumns ? columns : vectors * lanes, depth, a, lda, panel,
                                   vectors * lanes, c, ldc, false, ahead);
      if (left <= hstu::kColumns && ends_in_half<Sum>(columns)) {
        for (int r = 0; r < rows; ++r)
          std::memset(c + r * ldc + vectors * lanes - lanes / 2, 0, lanes / 2 * sizeof(Sum));
      }
      body(n / lanes, vectors, c);
      panel += depth * vectors * lanes;
      n += vectors * lanes;
    }
    if (tail == 0) return;
    Sum* c = place(end);
    for (int r = 0; r < rows; ++r) store(c + r * ldc, typename Lanes<Sum>::Vector{});
    hstu::add_tail(rows, static_cast<int>(tail), depth, a, lda, panel, padded<Sum>(depth), c, ldc);
    body(end / lanes, 1, c);
  }

  // c [rows][padded(width)] = a [rows][depth] times a packed matrix.
  void multiply(int rows, ptrdiff_t depth, ptrdiff_t width, const Sum* a, ptrdiff_t lda, const void* packed, Sum* c,
                Prefetch& ahead) const {
    multiply_panels(
        rows, depth, width, a, lda, packed, padded<Sum>(width), ahead, [&](ptrdiff_t column) { return c + column; },
        [](ptrdiff_t, int, const Sum*) {});
  }

  // c [m][padded(width)] += a^T b, of a [rows][lda] with m columns and b [rows][padded(width)].
  void multiply_add_turned(int rows, ptrdiff_t m, ptrdiff_t width, const Sum* a, ptrdiff_t lda, const Sum* b, void* c,
                           Prefetch& ahead) const {
    const ptrdiff_t ld = padded<Sum>(width);
    multiply_columns<Sum, true>(static_cast<int>(m), width, rows, a, lda, b, ld, static_cast<Sum*>(c), ld, true, ahead);
  }
};

}  // namespace
}  // namespace gr_ops::layer
