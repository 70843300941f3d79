#pragma once

#include "layer/cpu/rows.h"
#include "sampled_softmax/cpu/kernels.h"

// Rows of the table: their lengths, and their gradients from all places where they occur.
namespace gr_ops::sampled_softmax {
namespace {

using hstu::Lanes;
using hstu::load;
using hstu::load_some;
using hstu::smaller;
using hstu::splat;
using hstu::store;
using hstu::store_some;
using hstu::sum_of;
using layer::padded;
using layer::root;

// 1 / length, as torch.nn.functional.normalize bounds it.
template <typename T>
inline T inverse_length(const T* row, ptrdiff_t dim, T eps) {
  typename Lanes<T>::Vector squares{};
  for (ptrdiff_t i = 0; i < dim; i += Lanes<T>::count) {
    const auto value = load_some(row + i, static_cast<int>(dim - i));
    squares += value * value;
  }
  const T length = root(sum_of<T>(squares));
  return T{1} / (length < eps ? eps : length);
}

template <typename T>
void measure(const Problem& p, ptrdiff_t first, ptrdiff_t last) {
  for (ptrdiff_t u = first; u < last; ++u) {
    if (p.starts[u] == p.starts[u + 1]) continue;
    static_cast<T*>(p.inverse)[u] =
        inverse_length(static_cast<const T*>(p.rows) + u * p.dim, p.dim, static_cast<T>(p.eps));
  }
}

// The gradient of a row or query, to `to` [dim], from that of the scaled one, `gradient` in whole vectors. Shorter than
// eps, it was scaled by a constant.
template <typename T>
inline void unscale(const T* row, T inverse, const T* gradient, ptrdiff_t dim, T eps, T* to) {
  constexpr int lanes = Lanes<T>::count;
  typename Lanes<T>::Vector along{};
  for (ptrdiff_t i = 0; i < dim; i += lanes) {
    along += load_some(row + i, static_cast<int>(dim - i)) * load(gradient + i);
  }
  const T slope = inverse * eps < T{1} ? sum_of<T>(along) * inverse * inverse : T{0};
  const auto factor = splat(inverse), shared = splat(slope);
  for (ptrdiff_t i = 0; i < dim; i += lanes) {
    const int left = static_cast<int>(dim - i);
    store_some(to + i, (load(gradient + i) - load_some(row + i, left) * shared) * factor, left);
  }
}

constexpr int kGathered = 4;  // vectors of a row that are summed at a time
constexpr int kAhead = 6;     // entries between a request for a row and its use

// Asks for what an entry adds.
template <typename T>
inline void ask_for(const Problem& p, int64_t entry) {
  const bool token = entry < p.tokens;
  const T* from = token ? static_cast<const T*>(p.query) + entry * p.dim
                        : static_cast<const T*>(p.sums) + (entry - p.tokens) * padded<T>(p.dim);
  constexpr ptrdiff_t line = 64 / sizeof(T), most = 8 * line;
  for (ptrdiff_t i = 0; i < p.dim && i < most; i += line) __builtin_prefetch(from + i);
}

template <typename T, int Vectors>
void add_entries(const Problem& p, ptrdiff_t u, ptrdiff_t column, int64_t end, T* to) {
  constexpr int lanes = Lanes<T>::count;
  const ptrdiff_t ld = padded<T>(p.dim);
  typename Lanes<T>::Vector sums[Vectors];
#pragma GCC unroll 4
  for (int n = 0; n < Vectors; ++n) sums[n] = typename Lanes<T>::Vector{};
  for (int64_t e = p.starts[u]; e < p.starts[u + 1]; ++e) {
    const int64_t entry = p.entries[e];
    if (column == 0 && e + kAhead < end) ask_for<T>(p, p.entries[e + kAhead]);
    if (entry < p.tokens) {
      const auto factor = splat(static_cast<const T*>(p.to_target)[entry]);
      const T* from = static_cast<const T*>(p.query) + entry * p.dim + column;
#pragma GCC unroll 4
      for (int n = 0; n < Vectors; ++n) {
        sums[n] += load_some(from + n * lanes, static_cast<int>(p.dim - column - n * lanes)) * factor;
      }
    } else {
      const T* from = static_cast<const T*>(p.sums) + (entry - p.tokens) * ld + column;
#pragma GCC unroll 4
      for (int n = 0; n < Vectors; ++n) sums[n] += load(from + n * lanes);
    }
  }
#pragma GCC unroll 4
  for (int n = 0; n < Vectors; ++n) store(to + column + n * lanes, sums[n]);
}

template <typename T, int Vectors = kGathered>
void add_columns(const Problem& p, ptrdiff_t u, ptrdiff_t column, int vectors, int64_t end, T* to) {
  if constexpr (Vectors > 1) {
    if (vectors < Vectors) return add_columns<T, Vectors - 1>(p, u, column, vectors, end, to);
  }
  add_entries<T, Vectors>(p, u, column, end, to);
}

template <typename T>
void gather(const Problem& p, ptrdiff_t first, ptrdiff_t last, void* memory) {
  constexpr ptrdiff_t step = kGathered * Lanes<T>::count;
  const ptrdiff_t ld = padded<T>(p.dim);
  T* sums = static_cast<T*>(memory);
  for (ptrdiff_t u = first; u < last; ++u) {
    T* to = static_cast<T*>(p.drows) + u * p.dim;
    if (p.starts[u] == p.starts[u + 1]) {
      std::memset(to, 0, p.dim * sizeof(T));
      continue;
    }
    for (ptrdiff_t column = 0; column < ld; column += step) {
      const ptrdiff_t left = (ld - column) / Lanes<T>::count;
      add_columns<T>(p, u, column, left < kGathered ? static_cast<int>(left) : kGathered, p.starts[last], sums);
    }
    unscale(static_cast<const T*>(p.rows) + u * p.dim, static_cast<const T*>(p.inverse)[u], sums, p.dim,
            static_cast<T>(p.eps), to);
  }
}

}  // namespace
}  // namespace gr_ops::sampled_softmax
