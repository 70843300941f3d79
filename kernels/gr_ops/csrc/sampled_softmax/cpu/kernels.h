#pragma once

#include <cstddef>
#include <cstdint>

// The sampled softmax as plain pointers: what the kernels take (layer/cpu/kernels.h says why).
namespace gr_ops::sampled_softmax {

struct Problem {
  ptrdiff_t dim = 0;    // D
  ptrdiff_t width = 0;  // R
  double temperature = 1, eps = 0;
  double share = 0;                  // of a token in the mean: 1 / I
  const void* query = nullptr;       // [I][D]
  const void* rows = nullptr;        // [U][D]
  const int64_t* targets = nullptr;  // [I]
  void* inverse = nullptr;           // [U]: 1 / length of a row that occurs
  void* losses = nullptr;            // [I]
  // Null without gradients:
  void* dquery = nullptr;     // [I][D]
  void* to_target = nullptr;  // [I]: what the token's query is multiplied by in the gradient of its scaled target row
  void* drows = nullptr;      // [U][D]
  // Where each row occurs: entries[starts[u] to starts[u + 1]) are a token, or I + a row of `sums`, in order.
  const int64_t *starts = nullptr, *entries = nullptr;
  int64_t tokens = 0;          // I
  const void* sums = nullptr;  // [pieces * R][padded(D)]: gradients of scaled rows, of one piece each
};

// Some tokens of a group, so many whatever the number of threads is.
struct Piece {
  const int64_t* negatives = nullptr;  // [R]
  const void* correction = nullptr;    // [R], or null
  const int64_t* tokens = nullptr;
  int count = 0;
  void* sums = nullptr;  // [R][padded(D)]; null without gradients
};

// Of one element type and instruction set.
struct Kernels {
  ptrdiff_t (*padded)(ptrdiff_t width);  // in elements, up to whole vectors
  // The inverse lengths of the rows [first, last) that occur.
  void (*measure)(const Problem&, ptrdiff_t first, ptrdiff_t last);
  size_t (*scratch)(const Problem&);  // bytes that the following ask for, aligned to 64
  // Losses; with gradients those of the queries, and the piece's sums.
  void (*run)(const Problem&, const Piece&, void* scratch);
  // Of the rows [first, last), by all their entries in order.
  void (*gather)(const Problem&, ptrdiff_t first, ptrdiff_t last, void* scratch);
};

struct KernelSet {
  static KernelSet baseline(), avx2(), avx512();  // hstu/cpu/chosen.h says which one is taken
  static KernelSet avx512_bf16() { return avx512(); }
  static KernelSet amx() { return avx512(); }

  Kernels of_float, of_double;
};

}  // namespace gr_ops::sampled_softmax
