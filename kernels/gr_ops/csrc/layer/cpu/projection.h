#pragma once

#include "layer/cpu/rows.h"

// SiLU(norm(x) W) and its gradients. Nothing but the inputs is kept for the backward pass: to multiply again costs less
// than to write and read the products.
namespace gr_ops::layer {
namespace {

template <typename T>
struct ProjectionScratch {
  T *normed, *inverse, *products, *gradients, *of_normed;
  size_t bytes;

  ProjectionScratch(const Projection& p, void* block) {
    Arena arena(block);
    normed = arena.take<T>(kBlock * padded<T>(p.dim));
    inverse = arena.take<T>(kBlock);
    products = arena.take<T>(kBlock * padded<T>(p.width));
    gradients = arena.take<T>(kBlock * padded<T>(p.width));
    of_normed = arena.take<T>(kBlock * padded<T>(p.dim));
    bytes = arena.used();
  }
};

template <typename T>
size_t projection_scratch(const Projection& p) {
  return ProjectionScratch<T>(p, nullptr).bytes;
}

template <typename T>
void products_of(const Projection& p, ptrdiff_t token, int rows, const ProjectionScratch<T>& scratch, Prefetch& ahead) {
  normalise(static_cast<const T*>(p.x) + token * p.dim, rows, p.dim, p.eps, scratch.normed, scratch.inverse, ahead);
  multiply<T>(rows, p.dim, p.width, scratch.normed, padded<T>(p.dim), p.weight, scratch.products, ahead);
}

template <typename T>
void project(const Projection& p, ptrdiff_t first, ptrdiff_t last, void* memory) {
  const ProjectionScratch<T> scratch(p, memory);
  const ptrdiff_t ld = padded<T>(p.width);
  for (ptrdiff_t token = first; token < last; token += kBlock) {
    const int rows = static_cast<int>(last - token < kBlock ? last - token : kBlock);
    Prefetch ahead;
    for (int part = 0; part < p.parts; ++part) {
      const ptrdiff_t row = p.split[part] * sizeof(T);
      ahead.write(static_cast<char*>(p.out[part]) + token * row, rows * row);
    }
    ask_for_next<T>(ahead, p.x, p.dim, token + rows, last);
    products_of(p, token, rows, scratch, ahead);
    for (int r = 0; r < rows; ++r) {
      for (ptrdiff_t i = r * ld; i < (r + 1) * ld; i += Lanes<T>::count) {
        const auto z = load(scratch.products + i);
        store(scratch.products + i, z * hstu::sigmoid<true>(z));
      }
      ahead.step(Prefetch::kRowLines);
    }
    ptrdiff_t column = 0;
    for (int part = 0; part < p.parts; column += p.split[part++]) {
      auto* out = static_cast<T*>(p.out[part]) + token * p.split[part];
      for (int r = 0; r < rows; ++r) {
        copy_row(scratch.products + r * ld + column, p.split[part], out + r * p.split[part]);
      }
    }
  }
}

template <typename T>
void project_backward(const Projection& p, ptrdiff_t first, ptrdiff_t last, void* dweight, void* memory) {
  const ProjectionScratch<T> scratch(p, memory);
  const ptrdiff_t ld = padded<T>(p.width);
  std::memset(scratch.gradients, 0, kBlock * ld * sizeof(T));  // the padding stays 0
  for (ptrdiff_t token = first; token < last; token += kBlock) {
    const int rows = static_cast<int>(last - token < kBlock ? last - token : kBlock);
    Prefetch ahead;
    for (int part = 0; part < p.parts; ++part) {
      const ptrdiff_t row = p.split[part] * sizeof(T);
      ahead.read(static_cast<const char*>(p.grad[part]) + token * row, rows * row);
    }
    ahead.write(static_cast<T*>(p.dx) + token * p.dim, rows * p.dim * sizeof(T));
    ask_for_next<T>(ahead, p.x, p.dim, token + rows, last);
    products_of(p, token, rows, scratch, ahead);
    ptrdiff_t column = 0;
    for (int part = 0; part < p.parts; column += p.split[part++]) {
      const auto* grad = static_cast<const T*>(p.grad[part]) + token * p.split[part];
      for (int r = 0; r < rows; ++r) {
        copy_row(grad + r * p.split[part], p.split[part], scratch.gradients + r * ld + column);
      }
    }
    const auto one = splat(T{1});
    for (ptrdiff_t i = 0; i < rows * ld; i += Lanes<T>::count) {
      const auto z = load(scratch.products + i);
      const auto s = hstu::sigmoid<true>(z);
      store(scratch.gradients + i, load(scratch.gradients + i) * (s + z * s * (one - s)));
    }
    multiply<T>(rows, p.width, p.dim, scratch.gradients, ld, p.turned, scratch.of_normed, ahead);
    multiply_add_turned<T>(rows, p.dim, p.width, scratch.normed, padded<T>(p.dim), scratch.gradients, dweight, ahead);
    normalise_backward(scratch.normed, scratch.of_normed, scratch.inverse, rows, p.dim,
                       static_cast<T*>(p.dx) + token * p.dim);
  }
}

}  // namespace
}  // namespace gr_ops::layer
