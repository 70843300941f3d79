#pragma once

#include "hstu/cpu/arena.h"
#include "hstu/cpu/gemm.h"
#include "hstu/cpu/silu.h"
#include "hstu/cpu/tail.h"
#include "hstu/cpu/visible_keys.h"
#include "layer/cpu/kernels.h"

// What projection and gate share: rows in scratch memory, padded with zeros to whole vectors.
namespace gr_ops::layer {
namespace {

using hstu::Arena;
using hstu::Lanes;
using hstu::load;
using hstu::load_some;
using hstu::Prefetch;
using hstu::splat;
using hstu::store;
using hstu::store_some;
using hstu::store_sums;
using hstu::sum_of;

constexpr int kBlock = 64;  // tokens at a time: all that belongs to them stays in the second-level cache

template <typename T>
constexpr ptrdiff_t padded(ptrdiff_t width) {
  return (width + Lanes<T>::count - 1) / Lanes<T>::count * Lanes<T>::count;
}

template <typename T>
constexpr ptrdiff_t tail_of(ptrdiff_t depth, ptrdiff_t width) {
  return depth >= Lanes<T>::count ? hstu::tail_of<T>(width) : 0;
}

// Panels of kColumns vectors, the last one narrower, each [depth][panel]: a product reads one from end to end. Behind
// them columns of the tail, each [padded(depth)].
template <typename T>
void pack(const void* from, ptrdiff_t depth, ptrdiff_t width, bool turned, void* to) {
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

// a [rows][depth] times a packed matrix, panel by panel: body(first vector, vectors, c) finds each one in c
// [rows][ldc], which is where place(first column) is.
template <typename T, typename Place, typename Body>
void multiply_panels(int rows, ptrdiff_t depth, ptrdiff_t width, const T* a, ptrdiff_t lda, const void* packed,
                     ptrdiff_t ldc, Prefetch& ahead, const Place& place, const Body& body) {
  constexpr ptrdiff_t lanes = Lanes<T>::count;
  const ptrdiff_t tail = tail_of<T>(depth, width), end = padded<T>(width - tail);
  const auto* panel = static_cast<const T*>(packed);
  for (ptrdiff_t n = 0; n < end;) {
    const ptrdiff_t left = (end - n) / lanes, columns = width - tail - n;
    const int vectors = static_cast<int>(left < hstu::kColumns ? left : hstu::kColumns);
    T* c = place(n);
    multiply_columns<T, false>(rows, left <= hstu::kColumns ? columns : vectors * lanes, depth, a, lda, panel,
                               vectors * lanes, c, ldc, false, ahead);
    if (left <= hstu::kColumns && ends_in_half<T>(columns)) {
      for (int r = 0; r < rows; ++r) std::memset(c + r * ldc + vectors * lanes - lanes / 2, 0, lanes / 2 * sizeof(T));
    }
    body(n / lanes, vectors, c);
    panel += depth * vectors * lanes;
    n += vectors * lanes;
  }
  if (tail == 0) return;
  T* c = place(end);
  for (int r = 0; r < rows; ++r) store(c + r * ldc, typename Lanes<T>::Vector{});
  hstu::add_tail(rows, static_cast<int>(tail), depth, a, lda, panel, padded<T>(depth), c, ldc);
  body(end / lanes, 1, c);
}

// c [rows][padded(width)] = a [rows][depth] times a packed matrix.
template <typename T>
void multiply(int rows, ptrdiff_t depth, ptrdiff_t width, const T* a, ptrdiff_t lda, const void* packed, T* c,
              Prefetch& ahead) {
  multiply_panels<T>(
      rows, depth, width, a, lda, packed, padded<T>(width), ahead, [&](ptrdiff_t column) { return c + column; },
      [](ptrdiff_t, int, const T*) {});
}

// c [m][padded(width)] += a^T b, of a [rows][lda] with m columns and b [rows][padded(width)].
template <typename T>
void multiply_add_turned(int rows, ptrdiff_t m, ptrdiff_t width, const T* a, ptrdiff_t lda, const T* b, void* c,
                         Prefetch& ahead) {
  const ptrdiff_t ld = padded<T>(width);
  multiply_columns<T, true>(static_cast<int>(m), width, rows, a, lda, b, ld, static_cast<T*>(c), ld, true, ahead);
}

// The block of tokens that starts at `token`, of rows of `width` elements.
template <typename T>
void ask_for_next(Prefetch& ahead, const void* rows, ptrdiff_t width, ptrdiff_t token, ptrdiff_t last) {
  const ptrdiff_t count = last - token < kBlock ? last - token : kBlock;
  ahead.read(static_cast<const T*>(rows) + token * width, count * width * sizeof(T));
}

inline float root(float value) { return __builtin_sqrtf(value); }
inline double root(double value) { return __builtin_sqrt(value); }

constexpr int kRowVectors = 8;  // rows of as many vectors or fewer stay in registers

// So many rows are summed up together, if they fit into registers.
constexpr int kRowsTogether = 4;
constexpr int rows_together(int vectors) { return vectors > 0 && vectors <= 4 ? kRowsTogether : 1; }

// (x - mean) / standard deviation of each row, to [rows][padded(width)]; the inverse of the latter to `inverse`.
// Vectors: of a row; 0: any number, of one row.
template <typename T, int Vectors, int Rows>
inline void normalise_together(const T* x, ptrdiff_t width, double eps, T* to, T* inverse) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int lanes = Lanes<T>::count;
  const ptrdiff_t ld = Vectors > 0 ? Vectors * lanes : padded<T>(width);
  const T share = T{1} / static_cast<T>(width);
  Vector inside;  // of the last vector: 1 for elements, 0 for padding
  for (int i = 0; i < lanes; ++i) inside[i] = ld - lanes + i < width ? T{1} : T{0};
  Vector kept[Rows][Vectors > 0 ? Vectors : 1];
  const auto at = [&](int r, ptrdiff_t i) { return Vectors > 0 ? kept[r][i / lanes] : load(to + i); };
  const auto put = [&](int r, ptrdiff_t i, Vector value) {
    if constexpr (Vectors > 0) {
      kept[r][i / lanes] = value;
    } else {
      store(to + i, value);
    }
  };
  Vector sums[Rows];
  T totals[Rows];
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    sums[r] = Vector{};
#pragma GCC unroll 8
    for (ptrdiff_t i = 0; i < ld; i += lanes) {
      const Vector value = load_some(x + r * width + i, static_cast<int>(width - i));
      sums[r] += value;
      put(r, i, value);
    }
  }
  store_sums<T>(sums, totals);
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    const Vector mean = splat(totals[r] * share);
    sums[r] = Vector{};
#pragma GCC unroll 8
    for (ptrdiff_t i = 0; i < ld; i += lanes) {
      const Vector centred = i + lanes == ld ? (at(r, i) - mean) * inside : at(r, i) - mean;
      sums[r] += centred * centred;
      put(r, i, centred);
    }
  }
  store_sums<T>(sums, totals);
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    inverse[r] = T{1} / root(totals[r] * share + static_cast<T>(eps));
    const Vector factor = splat(inverse[r]);
#pragma GCC unroll 8
    for (ptrdiff_t i = 0; i < ld; i += lanes) store(to + r * ld + i, at(r, i) * factor);
  }
}

template <typename T, int Vectors>
void normalise_rows(const T* x, int rows, ptrdiff_t width, double eps, T* to, T* inverse, Prefetch& ahead) {
  constexpr int together = rows_together(Vectors);
  const ptrdiff_t ld = padded<T>(width);
  int r = 0;
  for (; r + together <= rows; r += together) {
    normalise_together<T, Vectors, together>(x + r * width, width, eps, to + r * ld, inverse + r);
    ahead.step(together * Prefetch::kRowLines);
  }
  for (; r < rows; ++r) {
    normalise_together<T, Vectors, 1>(x + r * width, width, eps, to + r * ld, inverse + r);
    ahead.step(Prefetch::kRowLines);
  }
}

template <typename T, int Vectors = kRowVectors>
void normalise(const T* x, int rows, ptrdiff_t width, double eps, T* to, T* inverse, Prefetch& ahead) {
  if constexpr (Vectors > 0) {
    if (padded<T>(width) != Vectors * Lanes<T>::count) {
      return normalise<T, Vectors - 1>(x, rows, width, eps, to, inverse, ahead);
    }
  }
  normalise_rows<T, Vectors>(x, rows, width, eps, to, inverse, ahead);
}

// The gradient of x, to [rows][width], from that of the normalised rows; both are padded, `gradient` with zeros.
template <typename T, int Vectors, int Rows>
inline void normalise_backward_together(const T* normed, const T* gradient, const T* inverse, ptrdiff_t width, T* to) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int lanes = Lanes<T>::count;
  const ptrdiff_t ld = Vectors > 0 ? Vectors * lanes : padded<T>(width);
  const T share = T{1} / static_cast<T>(width);
  Vector sums[2 * Rows];
  T totals[2 * Rows];
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    Vector sum{}, along{};
#pragma GCC unroll 8
    for (ptrdiff_t i = r * ld; i < (r + 1) * ld; i += lanes) {
      sum += load(gradient + i);
      along += load(gradient + i) * load(normed + i);
    }
    sums[2 * r] = sum;
    sums[2 * r + 1] = along;
  }
  store_sums<T>(sums, totals);
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r, normed += ld, gradient += ld, to += width) {
    const Vector mean = splat(totals[2 * r] * share);
    const Vector slope = splat(totals[2 * r + 1] * share);
    const Vector factor = splat(inverse[r]);
#pragma GCC unroll 8
    for (ptrdiff_t i = 0; i < ld; i += lanes) {
      const Vector value = (load(gradient + i) - mean - load(normed + i) * slope) * factor;
      store_some(to + i, value, static_cast<int>(width - i));
    }
  }
}

template <typename T, int Vectors>
void normalise_rows_backward(const T* normed, const T* gradient, const T* inverse, int rows, ptrdiff_t width, T* to) {
  constexpr int together = rows_together(Vectors);
  const ptrdiff_t ld = padded<T>(width);
  int r = 0;
  for (; r + together <= rows; r += together) {
    normalise_backward_together<T, Vectors, together>(normed + r * ld, gradient + r * ld, inverse + r, width,
                                                      to + r * width);
  }
  for (; r < rows; ++r) {
    normalise_backward_together<T, Vectors, 1>(normed + r * ld, gradient + r * ld, inverse + r, width, to + r * width);
  }
}

template <typename T, int Vectors = kRowVectors>
void normalise_backward(const T* normed, const T* gradient, const T* inverse, int rows, ptrdiff_t width, T* to) {
  if constexpr (Vectors > 0) {
    if (padded<T>(width) != Vectors * Lanes<T>::count) {
      return normalise_backward<T, Vectors - 1>(normed, gradient, inverse, rows, width, to);
    }
  }
  normalise_rows_backward<T, Vectors>(normed, gradient, inverse, rows, width, to);
}

}  // namespace
}  // namespace gr_ops::layer
