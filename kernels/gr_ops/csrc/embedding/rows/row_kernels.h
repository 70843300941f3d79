#pragma once

#include <cstdint>

// Arithmetic on rows of embedding tables. One source (row_kernels.inl) is compiled for each instruction set, and the
// best one that the processor has is taken at run time. Plain C++ only: a standard header's inline function that was
// compiled for AVX-512 could be the one that the linker keeps for everybody.
namespace gr_ops::rows {

struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

enum OptimizerKind { kSgd = 0, kAdagrad = 1, kRowwiseAdagrad = 2, kAdam = 3, kOptimizers = 4 };

struct Step {
  float learning_rate;
  float eps;
  float beta1;
  float beta2;
  float rest1;  // 1 - beta1, rounded once
  float rest2;
  float weight_decay;
  int64_t weight_decay_mode;
  float max_norm;
  float correction1;  // 1 / (1 - beta1^iter)
  float correction2;
};

// out[0:width] = scale * sum over i of weights[i] * base[indices[i] * stride + (0:width)], in the order of i, in fp32.
// accumulate: the sum starts with out. weights: nullptr stands for 1. readable >= count: indices may be read ahead.
template <typename Row, typename Index>
using Pool = void (*)(const Row* base, const Index* indices, int64_t count, int64_t readable, int64_t stride,
                      int64_t width, const float* weights, float scale, bool accumulate, float* out);

template <typename Row>
struct RowFunctions {
  Pool<Row, int32_t> pool32;
  Pool<Row, int64_t> pool64;
  void (*widen)(const Row* from, float* to, int64_t width);
  void (*narrow)(const float* from, Row* to, int64_t width);

  Pool<Row, int32_t> pool(const int32_t*) const { return pool32; }
  Pool<Row, int64_t> pool(const int64_t*) const { return pool64; }
};

// One row: weight, its states (momentum1 is a single element for row-wise Adagrad), its aggregated gradient.
using Update = void (*)(float* weight, float* momentum1, float* momentum2, float* gradient, int64_t width,
                        const Step& step);

struct RowKernels {
  RowFunctions<float> f32;
  RowFunctions<Half> f16;
  RowFunctions<Bfloat16> bf16;
  Update update[kOptimizers];
  float (*dot)(const float* a, const float* b, int64_t width);

  const RowFunctions<float>& of(const float*) const { return f32; }
  const RowFunctions<Half>& of(const Half*) const { return f16; }
  const RowFunctions<Bfloat16>& of(const Bfloat16*) const { return bf16; }
};

const RowKernels& row_kernels();

}  // namespace gr_ops::rows
