#pragma once

#include "hstu/cpu/arena.h"
#include "hstu/cpu/gemm.h"
#include "hstu/cpu/silu.h"
#include "layer/cpu/kernels.h"

// What projection and gate share: rows in scratch memory, padded with zeros to whole vectors.
namespace gr_ops::layer {
namespace {

using hstu::Arena;
using hstu::Lanes;
using hstu::load;
using hstu::load_some;
using hstu::splat;
using hstu::store;
using hstu::store_some;

constexpr int kBlock = 48;  // tokens at a time: all that belongs to them stays in the second-level cache

template <typename T>
constexpr ptrdiff_t padded(ptrdiff_t width) {
  return (width + Lanes<T>::count - 1) / Lanes<T>::count * Lanes<T>::count;
}

// Panels of kColumns vectors, the last one narrower, each [depth][panel]: a product reads one from end to end.
template <typename T>
void pack(const void* from, ptrdiff_t depth, ptrdiff_t width, bool turned, void* to) {
  constexpr ptrdiff_t lanes = Lanes<T>::count;
  const auto* matrix = static_cast<const T*>(from);
  auto* out = static_cast<T*>(to);
  for (ptrdiff_t first = 0; first < width; first += hstu::kColumns * lanes) {
    const ptrdiff_t left = padded<T>(width) - first;
    const ptrdiff_t panel = left < hstu::kColumns * lanes ? left : hstu::kColumns * lanes;
    for (ptrdiff_t k = 0; k < depth; ++k) {
      for (ptrdiff_t n = first; n < first + panel; ++n) {
        *out++ = n >= width ? T{0} : turned ? matrix[n * depth + k] : matrix[k * width + n];
      }
    }
  }
}

// c [rows][padded(width)] = a [rows][depth] times a packed matrix.
template <typename T>
void multiply(int rows, ptrdiff_t depth, ptrdiff_t width, const T* a, ptrdiff_t lda, const void* packed, T* c) {
  constexpr ptrdiff_t lanes = Lanes<T>::count;
  const ptrdiff_t ldc = padded<T>(width);
  const auto* panel = static_cast<const T*>(packed);
  for (ptrdiff_t n = 0; n < ldc;) {
    const ptrdiff_t left = (ldc - n) / lanes;
    const int vectors = static_cast<int>(left < hstu::kColumns ? left : hstu::kColumns);
    hstu::gemm<hstu::Plain<T, T>, false>(rows, vectors, depth, a, lda, panel, vectors * lanes, c + n, ldc, false);
    panel += depth * vectors * lanes;
    n += vectors * lanes;
  }
}

// c [m][padded(width)] += a^T b, of a [rows][lda] with m columns and b [rows][padded(width)].
template <typename T>
void multiply_add_turned(int rows, ptrdiff_t m, ptrdiff_t width, const T* a, ptrdiff_t lda, const T* b, void* c) {
  const ptrdiff_t ld = padded<T>(width);
  hstu::gemm<hstu::Plain<T, T>, true>(static_cast<int>(m), static_cast<int>(ld / Lanes<T>::count), rows, a, lda, b, ld,
                                      static_cast<T*>(c), ld, true);
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

template <typename T>
inline void take_row(const T* from, ptrdiff_t count, T* to) {
  std::memcpy(to, from, count * sizeof(T));
  for (ptrdiff_t i = count; i < padded<T>(count); ++i) to[i] = T{0};
}

inline float root(float value) { return __builtin_sqrtf(value); }
inline double root(double value) { return __builtin_sqrt(value); }

// (x - mean) / standard deviation of each row, to [rows][padded(width)]; the inverse of the latter to `inverse`.
template <typename T>
void normalise(const T* x, int rows, ptrdiff_t width, double eps, T* to, T* inverse) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int lanes = Lanes<T>::count;
  const ptrdiff_t ld = padded<T>(width);
  Vector inside;  // of the last vector: 1 for elements, 0 for padding
  for (int i = 0; i < lanes; ++i) inside[i] = ld - lanes + i < width ? T{1} : T{0};
  for (int r = 0; r < rows; ++r) {
    T* row = to + r * ld;
    take_row(x + r * width, width, row);
    Vector sum{};
    for (ptrdiff_t i = 0; i < ld; i += lanes) sum += load(row + i);
    const Vector mean = splat(static_cast<T>(sum_of<T>(sum) / static_cast<T>(width)));
    Vector squares{};
    for (ptrdiff_t i = 0; i < ld; i += lanes) {
      Vector centred = load(row + i) - mean;
      if (i + lanes == ld) centred *= inside;
      store(row + i, centred);
      squares += centred * centred;
    }
    inverse[r] = T{1} / root(sum_of<T>(squares) / static_cast<T>(width) + static_cast<T>(eps));
    const Vector factor = splat(inverse[r]);
    for (ptrdiff_t i = 0; i < ld; i += lanes) store(row + i, load(row + i) * factor);
  }
}

// The gradient of x, to [rows][width], from that of the normalised rows; both are padded, `gradient` with zeros.
template <typename T>
void normalise_backward(const T* normed, const T* gradient, const T* inverse, int rows, ptrdiff_t width, T* to) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int lanes = Lanes<T>::count;
  const ptrdiff_t ld = padded<T>(width);
  for (int r = 0; r < rows; ++r) {
    const T *n = normed + r * ld, *g = gradient + r * ld;
    Vector sum{}, along{};
    for (ptrdiff_t i = 0; i < ld; i += lanes) {
      sum += load(g + i);
      along += load(g + i) * load(n + i);
    }
    const Vector mean = splat(static_cast<T>(sum_of<T>(sum) / static_cast<T>(width)));
    const Vector slope = splat(static_cast<T>(sum_of<T>(along) / static_cast<T>(width)));
    const Vector factor = splat(inverse[r]);
    for (ptrdiff_t i = 0; i < ld; i += lanes) {
      const Vector value = (load(g + i) - mean - load(n + i) * slope) * factor;
      store_some(to + r * width + i, value, static_cast<int>(width - i));
    }
  }
}

}  // namespace
}  // namespace gr_ops::layer
