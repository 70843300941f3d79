#pragma once

#include <cstddef>
#include <cstdint>

// The products of an HSTU layer around its attention, as plain pointers: what the kernels take. They are compiled once
// per instruction set and include neither PyTorch nor the standard library's templates (hstu/cpu/head.h says why).
// A matrix that is multiplied from the right comes packed, as Kernels::pack lays it out.
namespace gr_ops::layer {

// SiLU(norm(x) W), cut into parts: [tokens, dim] -> [tokens, split[i]] each.
struct Projection {
  ptrdiff_t dim = 0, width = 0;  // width: of all parts together
  const ptrdiff_t* split = nullptr;
  int parts = 0;
  double eps = 0;
  const void* x = nullptr;
  const void* weight = nullptr;       // packed W
  void* const* out = nullptr;         // a pointer per part
  const void* turned = nullptr;       // packed W^T: the backward pass
  const void* const* grad = nullptr;  // a pointer per part
  void* dx = nullptr;
};

// x + (norm(attended) * u * keep * scale) W^T + bias: [tokens, width] -> [tokens, dim].
struct Gate {
  ptrdiff_t width = 0, dim = 0;
  double eps = 0, scale = 1;
  const void *attended = nullptr, *u = nullptr;
  const unsigned char* keep = nullptr;  // [tokens, width] of 0 and 1; null: all are kept
  const void *x = nullptr, *bias = nullptr;
  const void* weight = nullptr;  // packed W^T
  void* out = nullptr;
  const void* turned = nullptr;  // packed W: the backward pass
  const void* grad = nullptr;
  void *dattended = nullptr, *du = nullptr;
};

// Of one element type of the rows and instruction set. Sums, weights and biases are double for rows of double, else
// float. `scratch` has the size that the function of the same name with _scratch asks for, aligned to 64 bytes.
struct Kernels {
  ptrdiff_t (*padded)(ptrdiff_t width);  // in elements, up to whole vectors
  size_t (*packed_bytes)(ptrdiff_t depth, ptrdiff_t width);
  // [depth][width] from a matrix of these sizes, or turned from one of [width][depth].
  void (*pack)(const void* from, ptrdiff_t depth, ptrdiff_t width, bool turned, void* to);
  // Those of Gate::weight.
  size_t (*packed_gate_bytes)(ptrdiff_t depth, ptrdiff_t width);
  void (*pack_gate)(const void* from, ptrdiff_t depth, ptrdiff_t width, bool turned, void* to);
  size_t (*projection_scratch)(const Projection&);
  void (*project)(const Projection&, ptrdiff_t first, ptrdiff_t last, void* scratch);
  // dx of these tokens; adds to dweight [padded(dim)][padded(width)].
  void (*project_backward)(const Projection&, ptrdiff_t first, ptrdiff_t last, void* dweight, void* scratch);
  size_t (*gate_scratch)(const Gate&);
  void (*gate)(const Gate&, ptrdiff_t first, ptrdiff_t last, void* scratch);
  size_t (*gate_backward_scratch)(const Gate&);
  // dattended and du of these tokens; adds to dweight [padded(dim)][padded(width)] and dbias [padded(dim)].
  void (*gate_backward)(const Gate&, ptrdiff_t first, ptrdiff_t last, void* dweight, void* dbias, void* scratch);
};

struct KernelSet {
  static KernelSet baseline(), avx2(), avx512(), avx512_bf16(), amx();  // hstu/cpu/chosen.h says which one is taken

  Kernels of_float, of_wide_float, of_double, of_half, of_bfloat16;
  // to[i] of elements [first, last): 0 with probability threshold / 2^32, by `seed` and i alone, else 1.
  void (*keep)(int64_t first, int64_t last, uint64_t seed, uint32_t threshold, unsigned char* to);
};

}  // namespace gr_ops::layer
