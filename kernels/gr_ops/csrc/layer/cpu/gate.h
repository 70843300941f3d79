#pragma once

#include "layer/cpu/rows.h"

// x + (norm(attended) * u * keep * scale) W^T + bias and its gradients; kept for the backward pass are the inputs.
namespace gr_ops::layer {
namespace {

template <class P>
struct GateScratch {
  using T = typename P::Sum;
  T *normed, *inverse, *gated, *of_gated, *out;  // out: also the gradient in T
  P products_of;
  size_t bytes;

  GateScratch(const Gate& g, void* block) : GateScratch(g, Arena(block)) {}

 private:
  GateScratch(const Gate& g, Arena&& arena) : products_of(arena, g.dim > g.width ? g.dim : g.width) {
    const size_t width = padded<T>(g.width);
    normed = arena.take<T>(P::kBlock * width);
    inverse = arena.take<T>(P::kBlock);
    gated = arena.take<T>(P::kBlock * width);
    of_gated = arena.take<T>(P::kBlock * width);
    out = arena.take<T>(P::kBlock * padded<T>(g.dim));
    bytes = arena.used();
  }
};

template <class P>
size_t gate_scratch(const Gate& g) {
  return GateScratch<P>(g, nullptr).bytes;
}

// keep * scale of one vector.
template <typename T>
inline typename Lanes<T>::Vector factor_of(const unsigned char* keep, ptrdiff_t count, T scale) {
  constexpr int lanes = Lanes<T>::count;
  if (keep == nullptr) return splat(scale);
#if defined(__AVX512F__)
  if constexpr (lanes == 16) {
    const auto inside = static_cast<__mmask16>(hstu::first_lanes<16>(static_cast<int>(count)));
    const __m128i bytes = _mm_maskz_loadu_epi8(inside, keep);
    return (typename Lanes<T>::Vector)_mm512_maskz_mov_ps(_mm_test_epi8_mask(bytes, bytes), _mm512_set1_ps(scale));
  }
#endif
  typedef unsigned char Bytes __attribute__((vector_size(lanes)));
  Bytes bytes{};
  std::memcpy(&bytes, keep, count < lanes ? count : lanes);
  return __builtin_convertvector(bytes, typename Lanes<T>::Vector) * splat(scale);
}

inline const unsigned char* keep_at(const Gate& g, ptrdiff_t token, ptrdiff_t column) {
  return g.keep == nullptr ? nullptr : g.keep + token * g.width + column;
}

template <typename T>
struct Rows {
  const T* data;
  ptrdiff_t ld;
};

// The same rows where they are of T, else a copy.
template <typename T, typename Stored>
Rows<T> widened(const Stored* from, int rows, ptrdiff_t width, T* to) {
  if constexpr (sizeof(Stored) == sizeof(T)) {
    return {from, width};
  } else {
    const ptrdiff_t ld = padded<T>(width);
    for (int r = 0; r < rows; ++r) {
      for (ptrdiff_t i = 0; i < ld; i += Lanes<T>::count) {
        store(to + r * ld + i, load_some(from + r * width + i, static_cast<int>(width - i)));
      }
    }
    return {to, ld};
  }
}

// sums [padded(width)] += rows [rows][width]
template <typename T>
void add_rows(Rows<T> from, int rows, ptrdiff_t width, T* sums) {
  for (ptrdiff_t i = 0; i < width; i += Lanes<T>::count) {
    auto sum = load(sums + i);
    for (int r = 0; r < rows; ++r) sum += load_some(from.data + r * from.ld + i, static_cast<int>(width - i));
    store(sums + i, sum);
  }
}

template <class P>
void gate_rows(const Gate& g, ptrdiff_t token, int rows, const GateScratch<P>& scratch, Prefetch& ahead) {
  using Stored = typename P::Stored;
  using T = typename P::Sum;
  const ptrdiff_t ld = padded<T>(g.width);
  const T scale = static_cast<T>(g.scale);
  normalise(static_cast<const Stored*>(g.attended) + token * g.width, rows, g.width, g.eps, scratch.normed,
            scratch.inverse, ahead);
  for (int r = 0; r < rows; ++r) {
    const Stored* u = static_cast<const Stored*>(g.u) + (token + r) * g.width;
    for (ptrdiff_t i = 0; i < ld; i += Lanes<T>::count) {
      const auto factor = factor_of<T>(keep_at(g, token + r, i), g.width - i, scale);
      const auto gates = load_some(u + i, static_cast<int>(g.width - i));
      store(scratch.gated + r * ld + i, load(scratch.normed + r * ld + i) * gates * factor);
    }
    ahead.step(Prefetch::kRowLines);
  }
}

template <class P>
void ask_for_next_rows(Prefetch& ahead, const Gate& g, ptrdiff_t token, ptrdiff_t last) {
  ask_for_next<P>(ahead, g.attended, g.width, token, last);
  ask_for_next<P>(ahead, g.u, g.width, token, last);
  if (g.keep != nullptr) ask_for_next<P, unsigned char>(ahead, g.keep, g.width, token, last);
}

template <class P>
void gate(const Gate& g, ptrdiff_t first, ptrdiff_t last, void* memory) {
  using Stored = typename P::Stored;
  using T = typename P::Sum;
  const GateScratch<P> scratch(g, memory);
  const ptrdiff_t ld = padded<T>(g.dim);
  for (ptrdiff_t token = first; token < last; token += P::kBlock) {
    const int rows = static_cast<int>(last - token < P::kBlock ? last - token : P::kBlock);
    Prefetch ahead;
    ahead.read(static_cast<const Stored*>(g.x) + token * g.dim, rows * g.dim * sizeof(Stored));
    ahead.write(static_cast<Stored*>(g.out) + token * g.dim, rows * g.dim * sizeof(Stored));
    ask_for_next_rows<P>(ahead, g, token + rows, last);
    gate_rows(g, token, rows, scratch, ahead);
    scratch.products_of.multiply(rows, g.width, g.dim, scratch.gated, padded<T>(g.width), g.weight, scratch.out, ahead);
    for (int r = 0; r < rows; ++r) {
      const ptrdiff_t at = (token + r) * g.dim;
      const auto* x = static_cast<const Stored*>(g.x) + at;
      const auto* bias = static_cast<const T*>(g.bias);
      for (ptrdiff_t i = 0; i < g.dim; i += Lanes<T>::count) {
        const int left = static_cast<int>(g.dim - i);
        const auto value = load(scratch.out + r * ld + i) + load_some(bias + i, left) + load_some(x + i, left);
        store_some(static_cast<Stored*>(g.out) + at + i, value, left);
      }
      ahead.step(Prefetch::kRowLines);
    }
  }
}

template <class P>
void gate_backward(const Gate& g, ptrdiff_t first, ptrdiff_t last, void* dweight, void* dbias, void* memory) {
  using Stored = typename P::Stored;
  using T = typename P::Sum;
  const GateScratch<P> scratch(g, memory);
  const ptrdiff_t ld = padded<T>(g.width);
  const T scale = static_cast<T>(g.scale);
  for (ptrdiff_t token = first; token < last; token += P::kBlock) {
    const int rows = static_cast<int>(last - token < P::kBlock ? last - token : P::kBlock);
    Prefetch ahead;
    ahead.write(static_cast<Stored*>(g.du) + token * g.width, rows * g.width * sizeof(Stored));
    ahead.write(static_cast<Stored*>(g.dattended) + token * g.width, rows * g.width * sizeof(Stored));
    ask_for_next<P>(ahead, g.grad, g.dim, token + rows, last);
    ask_for_next_rows<P>(ahead, g, token + rows, last);
    gate_rows(g, token, rows, scratch, ahead);
    const auto grad = widened(static_cast<const Stored*>(g.grad) + token * g.dim, rows, g.dim, scratch.out);
    scratch.products_of.multiply(rows, g.dim, g.width, grad.data, grad.ld, g.turned, scratch.of_gated, ahead);
    scratch.products_of.multiply_add_turned(rows, g.dim, g.width, grad.data, grad.ld, scratch.gated, dweight, ahead);
    for (int r = 0; r < rows; ++r) {
      const Stored* u = static_cast<const Stored*>(g.u) + (token + r) * g.width;
      Stored* du = static_cast<Stored*>(g.du) + (token + r) * g.width;
      for (ptrdiff_t i = 0; i < ld; i += Lanes<T>::count) {
        const int left = static_cast<int>(g.width - i);
        const auto factor = factor_of<T>(keep_at(g, token + r, i), left, scale);
        const auto gradient = load(scratch.of_gated + r * ld + i) * factor;
        store_some(du + i, gradient * load(scratch.normed + r * ld + i), left);
        store(scratch.of_gated + r * ld + i, gradient * load_some(u + i, left));
      }
      ahead.step(Prefetch::kRowLines);
    }
    add_rows(grad, rows, g.dim, static_cast<T*>(dbias));
    normalise_backward(scratch.normed, scratch.of_gated, scratch.inverse, rows, g.width,
                       static_cast<Stored*>(g.dattended) + token * g.width);
  }
}

}  // namespace
}  // namespace gr_ops::layer
