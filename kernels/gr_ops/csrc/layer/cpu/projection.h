#pragma once

#include "layer/cpu/parts.h"

// SiLU(norm(x) W) and its gradients. Nothing but the inputs is kept for the backward pass: to multiply again costs less
// than to write and read the products.
namespace gr_ops::layer {
namespace {

// Columns of the products that are there at a time, so that they stay in the first cache.
template <typename T>
constexpr ptrdiff_t kPanel = hstu::kColumns * Lanes<T>::count;

template <class P>
struct ProjectionScratch {
  using T = typename P::Sum;
  T *normed, *mean, *inverse, *products, *gradients, *of_normed;
  Pieces<typename P::Stored> pieces;
  P products_of;
  size_t bytes;

  ProjectionScratch(const Projection& p, void* block) : ProjectionScratch(p, Arena(block)) {}

 private:
  ProjectionScratch(const Projection& p, Arena&& arena) : products_of(arena, p.dim > p.width ? p.dim : p.width) {
    normed = arena.take<T>(P::kBlock * padded<T>(p.dim));
    mean = arena.take<T>(P::kBlock);
    inverse = arena.take<T>(P::kBlock);
    products = arena.take<T>(P::kBlock * kPanel<T>);
    gradients = arena.take<T>(P::kBlock * padded<T>(p.width));
    of_normed = arena.take<T>(P::kBlock * padded<T>(p.dim));
    pieces.allocate(arena, p);
    bytes = arena.used();
  }
};

template <class P>
size_t projection_scratch(const Projection& p) {
  return ProjectionScratch<P>(p, nullptr).bytes;
}

// body(vector, row, z) with each vector of norm(x) W.
template <class P, typename Body>
void each_product(const Projection& p, ptrdiff_t token, int rows, const ProjectionScratch<P>& scratch, Prefetch& ahead,
                  const Body& body) {
  using T = typename P::Sum;
  const auto* x = static_cast<const typename P::Stored*>(p.x) + token * p.dim;
  normalise(x, rows, p.dim, p.eps, scratch.normed, scratch.inverse, ahead, scratch.mean);
  if constexpr (P::kPaired) {
    return scratch.products_of.each_normed(rows, p.dim, p.width, x, scratch.mean, scratch.inverse, p.weight,
                                           scratch.products, ahead, body);
  }
  scratch.products_of.multiply_panels(
      rows, p.dim, p.width, scratch.normed, padded<T>(p.dim), p.weight, kPanel<T>, ahead,
      [&](ptrdiff_t) { return scratch.products; },
      [&](ptrdiff_t first, int vectors, const T* products) {
        for (int r = 0; r < rows; ++r) {
          for (int v = 0; v < vectors; ++v) body(first + v, r, load(products + r * kPanel<T> + v * Lanes<T>::count));
          ahead.step(Prefetch::kRowLines);
        }
      });
}

template <class P>
void project(const Projection& p, ptrdiff_t first, ptrdiff_t last, void* memory) {
  using Stored = typename P::Stored;
  ProjectionScratch<P> scratch(p, memory);
  scratch.pieces.set(p, p.out);
  for (ptrdiff_t token = first; token < last; token += P::kBlock) {
    const int rows = static_cast<int>(last - token < P::kBlock ? last - token : P::kBlock);
    Prefetch ahead;
    for (int part = 0; part < p.parts; ++part) {
      const ptrdiff_t row = p.split[part] * sizeof(Stored);
      ahead.write(static_cast<char*>(p.out[part]) + token * row, rows * row);
    }
    ask_for_next<P>(ahead, p.x, p.dim, token + rows, last);
    each_product(p, token, rows, scratch, ahead,
                 [&](ptrdiff_t vector, int r, typename Lanes<typename P::Sum>::Vector z) {
                   scratch.pieces.put(vector, token + r, z * hstu::sigmoid<true>(z));
                 });
  }
}

template <class P>
void project_backward(const Projection& p, ptrdiff_t first, ptrdiff_t last, void* dweight, void* memory) {
  using Stored = typename P::Stored;
  using T = typename P::Sum;
  ProjectionScratch<P> scratch(p, memory);
  scratch.pieces.set(p, p.grad);
  const ptrdiff_t ld = padded<T>(p.width);
  const auto one = splat(T{1});
  for (ptrdiff_t token = first; token < last; token += P::kBlock) {
    const int rows = static_cast<int>(last - token < P::kBlock ? last - token : P::kBlock);
    Prefetch ahead;
    for (int part = 0; part < p.parts; ++part) {
      const ptrdiff_t row = p.split[part] * sizeof(Stored);
      ahead.read(static_cast<const char*>(p.grad[part]) + token * row, rows * row);
    }
    ahead.write(static_cast<Stored*>(p.dx) + token * p.dim, rows * p.dim * sizeof(Stored));
    ask_for_next<P>(ahead, p.x, p.dim, token + rows, last);
    each_product(p, token, rows, scratch, ahead, [&](ptrdiff_t vector, int r, typename Lanes<T>::Vector z) {
      const auto s = hstu::sigmoid<true>(z);
      store(scratch.gradients + r * ld + vector * Lanes<T>::count,
            scratch.pieces.get(vector, token + r) * (s + z * s * (one - s)));
    });
    scratch.products_of.multiply(rows, p.width, p.dim, scratch.gradients, ld, p.turned, scratch.of_normed, ahead);
    if constexpr (P::kPaired) {
      scratch.products_of.multiply_add_rounded(rows, p.dim, p.width, scratch.normed, scratch.gradients, dweight, ahead);
    } else {
      scratch.products_of.multiply_add_turned(rows, p.dim, p.width, scratch.normed, padded<T>(p.dim), scratch.gradients,
                                              dweight, ahead);
    }
    normalise_backward(scratch.normed, scratch.of_normed, scratch.inverse, rows, p.dim,
                       static_cast<Stored*>(p.dx) + token * p.dim);
  }
}

}  // namespace
}  // namespace gr_ops::layer
