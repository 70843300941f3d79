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

template <typename T>
constexpr ptrdiff_t padded(ptrdiff_t width) {
  return (width + Lanes<T>::count - 1) / Lanes<T>::count * Lanes<T>::count;
}

// The block of tokens that starts at `token`, of rows of `width` elements.
template <class P, typename T = typename P::Stored>
void ask_for_next(Prefetch& ahead, const void* rows, ptrdiff_t width, ptrdiff_t token, ptrdiff_t last) {
  const ptrdiff_t count = last - token < P::kBlock ? last - token : P::kBlock;
  ahead.read(static_cast<const T*>(rows) + token * width, count * width * sizeof(T));
}

inline float root(float value) { return __builtin_sqrtf(value); }
inline double root(double value) { return __builtin_sqrt(value); }

constexpr int kRowVectors = 8;  // rows of as many vectors or fewer stay in registers

// So many rows are summed up together, if they fit into registers.
constexpr int kRowsTogether = 4;
constexpr int rows_together(int vectors) { return vectors > 0 && vectors <= 4 ? kRowsTogether : 1; }

// (x - mean) / standard deviation of each row, to [rows][padded(width)]; the inverse of the latter to `inverse`, and
// the former to `mean` if that is asked for. Vectors: of a row; 0: any number, of one row.
template <typename T, int Vectors, int Rows, typename Stored>
inline void normalise_together(const Stored* x, ptrdiff_t width, double eps, T* to, T* inverse, T* mean_of) {
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
    if (mean_of != nullptr) mean_of[r] = totals[r] * share;
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

template <typename T, int Vectors, typename Stored>
void normalise_rows(const Stored* x, int rows, ptrdiff_t width, double eps, T* to, T* inverse, Prefetch& ahead,
                    T* mean) {
  constexpr int together = rows_together(Vectors);
  const ptrdiff_t ld = padded<T>(width);
  int r = 0;
  for (; r + together <= rows; r += together) {
    normalise_together<T, Vectors, together>(x + r * width, width, eps, to + r * ld, inverse + r,
                                             mean == nullptr ? nullptr : mean + r);
    ahead.step(together * Prefetch::kRowLines);
  }
  for (; r < rows; ++r) {
    normalise_together<T, Vectors, 1>(x + r * width, width, eps, to + r * ld, inverse + r,
                                      mean == nullptr ? nullptr : mean + r);
    ahead.step(Prefetch::kRowLines);
  }
}

template <int Vectors = kRowVectors, typename T, typename Stored>
void normalise(const Stored* x, int rows, ptrdiff_t width, double eps, T* to, T* inverse, Prefetch& ahead,
               T* mean = nullptr) {
  if constexpr (Vectors > 0) {
    if (padded<T>(width) != Vectors * Lanes<T>::count) {
      return normalise<Vectors - 1>(x, rows, width, eps, to, inverse, ahead, mean);
    }
  }
  normalise_rows<T, Vectors>(x, rows, width, eps, to, inverse, ahead, mean);
}

// The gradient of x, to [rows][width], from that of the normalised rows; both are padded, `gradient` with zeros.
template <typename T, int Vectors, int Rows, typename Stored>
inline void normalise_backward_together(const T* normed, const T* gradient, const T* inverse, ptrdiff_t width,
                                        Stored* to) {
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

template <typename T, int Vectors, typename Stored>
void normalise_rows_backward(const T* normed, const T* gradient, const T* inverse, int rows, ptrdiff_t width,
                             Stored* to) {
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

template <int Vectors = kRowVectors, typename T, typename Stored>
void normalise_backward(const T* normed, const T* gradient, const T* inverse, int rows, ptrdiff_t width, Stored* to) {
  if constexpr (Vectors > 0) {
    if (padded<T>(width) != Vectors * Lanes<T>::count) {
      return normalise_backward<Vectors - 1>(normed, gradient, inverse, rows, width, to);
    }
  }
  normalise_rows_backward<T, Vectors>(normed, gradient, inverse, rows, width, to);
}

}  // namespace
}  // namespace gr_ops::layer
