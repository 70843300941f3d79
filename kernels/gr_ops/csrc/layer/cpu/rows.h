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
using hstu::sum_of;

constexpr int kBlock = 48;  // tokens at a time: all that belongs to them stays in the second-level cache

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

// c [rows][padded(width)] = a [rows][depth] times a packed matrix.
template <typename T>
void multiply(int rows, ptrdiff_t depth, ptrdiff_t width, const T* a, ptrdiff_t lda, const void* packed, T* c,
              Prefetch& ahead) {
  constexpr ptrdiff_t lanes = Lanes<T>::count;
  const ptrdiff_t ldc = padded<T>(width), tail = tail_of<T>(depth, width);
  const ptrdiff_t end = padded<T>(width - tail);
  const auto* panel = static_cast<const T*>(packed);
  for (ptrdiff_t n = 0; n < end;) {
    const ptrdiff_t left = (end - n) / lanes;
    const int vectors = static_cast<int>(left < hstu::kColumns ? left : hstu::kColumns);
    hstu::gemm<hstu::Plain<T, T>, false>(rows, vectors, depth, a, lda, panel, vectors * lanes, c + n, ldc, false,
                                         ahead);
    panel += depth * vectors * lanes;
    n += vectors * lanes;
  }
  if (tail == 0) return;
  for (int r = 0; r < rows; ++r) store(c + r * ldc + end, typename Lanes<T>::Vector{});
  hstu::add_tail(rows, static_cast<int>(tail), depth, a, lda, panel, padded<T>(depth), c + end, ldc);
}

// c [m][padded(width)] += a^T b, of a [rows][lda] with m columns and b [rows][padded(width)].
template <typename T>
void multiply_add_turned(int rows, ptrdiff_t m, ptrdiff_t width, const T* a, ptrdiff_t lda, const T* b, void* c,
                         Prefetch& ahead) {
  const ptrdiff_t ld = padded<T>(width);
  hstu::gemm<hstu::Plain<T, T>, true>(static_cast<int>(m), static_cast<int>(ld / Lanes<T>::count), rows, a, lda, b, ld,
                                      static_cast<T*>(c), ld, true, ahead);
}

// The block of tokens that starts at `token`, of rows of `width` elements.
template <typename T>
void ask_for_next(Prefetch& ahead, const void* rows, ptrdiff_t width, ptrdiff_t token, ptrdiff_t last) {
  const ptrdiff_t count = last - token < kBlock ? last - token : kBlock;
  ahead.read(static_cast<const T*>(rows) + token * width, count * width * sizeof(T));
}

template <typename T>
inline void copy_row(const T* from, ptrdiff_t count, T* to) {
  for (ptrdiff_t i = 0; i < count; i += Lanes<T>::count) {
    const int left = static_cast<int>(count - i);
    store_some(to + i, load_some(from + i, left), left);
  }
}

inline float root(float value) { return __builtin_sqrtf(value); }
inline double root(double value) { return __builtin_sqrt(value); }

constexpr int kRowVectors = 8;  // rows of as many vectors or fewer stay in registers

// (x - mean) / standard deviation of each row, to [rows][padded(width)]; the inverse of the latter to `inverse`.
// Vectors: of a row; 0: any number.
template <typename T, int Vectors>
void normalise_rows(const T* x, int rows, ptrdiff_t width, double eps, T* to, T* inverse, Prefetch& ahead) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int lanes = Lanes<T>::count;
  const ptrdiff_t ld = Vectors > 0 ? Vectors * lanes : padded<T>(width);
  const T share = T{1} / static_cast<T>(width);
  Vector inside;  // of the last vector: 1 for elements, 0 for padding
  for (int i = 0; i < lanes; ++i) inside[i] = ld - lanes + i < width ? T{1} : T{0};
  for (int r = 0; r < rows; ++r, x += width, to += ld) {
    Vector kept[Vectors > 0 ? Vectors : 1];
    const auto at = [&](ptrdiff_t i) { return Vectors > 0 ? kept[i / lanes] : load(to + i); };
    const auto put = [&](ptrdiff_t i, Vector value) {
      if constexpr (Vectors > 0) {
        kept[i / lanes] = value;
      } else {
        store(to + i, value);
      }
    };
    Vector sum{};
#pragma GCC unroll 8
    for (ptrdiff_t i = 0; i < ld; i += lanes) {
      const Vector value = load_some(x + i, static_cast<int>(width - i));
      sum += value;
      put(i, value);
    }
    const Vector mean = splat(sum_of<T>(sum) * share);
    Vector squares{};
#pragma GCC unroll 8
    for (ptrdiff_t i = 0; i < ld; i += lanes) {
      const Vector centred = i + lanes == ld ? (at(i) - mean) * inside : at(i) - mean;
      squares += centred * centred;
      put(i, centred);
    }
    inverse[r] = T{1} / root(sum_of<T>(squares) * share + static_cast<T>(eps));
    const Vector factor = splat(inverse[r]);
#pragma GCC unroll 8
    for (ptrdiff_t i = 0; i < ld; i += lanes) store(to + i, at(i) * factor);
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
template <typename T, int Vectors>
void normalise_rows_backward(const T* normed, const T* gradient, const T* inverse, int rows, ptrdiff_t width, T* to) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int lanes = Lanes<T>::count;
  const ptrdiff_t ld = Vectors > 0 ? Vectors * lanes : padded<T>(width);
  const T share = T{1} / static_cast<T>(width);
  for (int r = 0; r < rows; ++r, normed += ld, gradient += ld, to += width) {
    Vector sum{}, along{};
#pragma GCC unroll 8
    for (ptrdiff_t i = 0; i < ld; i += lanes) {
      sum += load(gradient + i);
      along += load(gradient + i) * load(normed + i);
    }
    const Vector mean = splat(sum_of<T>(sum) * share);
    const Vector slope = splat(sum_of<T>(along) * share);
    const Vector factor = splat(inverse[r]);
#pragma GCC unroll 8
    for (ptrdiff_t i = 0; i < ld; i += lanes) {
      const Vector value = (load(gradient + i) - mean - load(normed + i) * slope) * factor;
      store_some(to + i, value, static_cast<int>(width - i));
    }
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
