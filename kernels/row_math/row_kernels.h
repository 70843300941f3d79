#pragma once

#include <cstdint>

// Arithmetic on rows of embedding tables. One source (row_kernels.inl) is compiled for each instruction set, and the
// best one that the processor has is taken at run time. Plain C++ only: a standard header's inline function that was
// compiled for AVX-512 could be the one that the linker keeps for everybody.
namespace row_math {

struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

// The numbers of a step; a kind of optimizer reads those that it has.
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

// For each of `bags` bags, bag i of indices [offsets[i], offsets[i + 1]):
//   out[i * out_stride + (0:width)] = sum over its k of weights[k] * base[indices[k] * stride + (0:width)]
// in fp32 and in the order of k; mean: divided by the number of indices, if there are any. weights: nullptr stands
// for 1.
template <typename Row, typename Index>
using PoolBags = void (*)(const Row* base, const Index* indices, const int64_t* offsets, int64_t bags, int64_t stride,
                          int64_t width, const float* weights, bool mean, float* out, int64_t out_stride);

// What stochastic rounding of a row draws by (rounding_draws.h): the row's own numbers, and those of each column.
struct RowDraws {
  uint32_t factor;
  uint32_t term;
  uint32_t last;
  const uint32_t* factors;
  const uint32_t* terms;
  const uint32_t* lasts;
};

template <typename Row>
struct RowFunctions {
  PoolBags<Row, int32_t> pool32;
  PoolBags<Row, int64_t> pool64;
  void (*widen)(const Row* from, float* to, int64_t width);
  void (*narrow)(const float* from, Row* to, int64_t width);  // to the nearest
  void (*round)(const float* from, Row* to, int64_t width, const RowDraws& draws);

  PoolBags<Row, int32_t> pool(const int32_t*) const { return pool32; }
  PoolBags<Row, int64_t> pool(const int64_t*) const { return pool64; }
};

// Where a row, its states and its gradient are; what the optimizer does not have is nullptr. momentum1 of row-wise
// Adagrad is one element.
struct RowState {
  float* weights;
  float* momentum1;
  float* momentum2;
  const float* gradient;
};

// One step for each of `count` rows of `width` columns.
using RowLoop = void (*)(const RowState* rows, int64_t count, int64_t width, const Step& step);

struct Update {
  RowLoop run;
  bool overwrites_gradient = false;  // the step writes where it reads the gradient
};

// Formulas: optimizer_steps.inl.
struct Updates {
  Update sgd;
  Update adagrad;
  Update rowwise_adagrad;
  Update adam;
  Update lamb;
  Update lion;
};

using UpdateOf = Update Updates::*;

struct RowKernels {
  RowFunctions<float> f32;
  RowFunctions<Half> f16;
  RowFunctions<Bfloat16> bf16;
  Updates updates;
  RowLoop decay_gradients;  // gradients[r] += weight_decay * weights of row r
  float (*dot)(const float* a, const float* b, int64_t width);
  // Whether all indices are in [0, rows).
  bool (*valid32)(const int32_t* indices, int64_t count, int64_t rows);
  bool (*valid64)(const int64_t* indices, int64_t count, int64_t rows);
  // Whether none of `count` values is negative or less than the one before it.
  bool (*ascending32)(const int32_t* values, int64_t count);
  bool (*ascending64)(const int64_t* values, int64_t count);

  bool valid(const int32_t* indices, int64_t count, int64_t rows) const { return valid32(indices, count, rows); }
  bool valid(const int64_t* indices, int64_t count, int64_t rows) const { return valid64(indices, count, rows); }
  bool ascending(const int32_t* values, int64_t count) const { return ascending32(values, count); }
  bool ascending(const int64_t* values, int64_t count) const { return ascending64(values, count); }
  const RowFunctions<float>& of(const float*) const { return f32; }
  const RowFunctions<Half>& of(const Half*) const { return f16; }
  const RowFunctions<Bfloat16>& of(const Bfloat16*) const { return bf16; }
};

const RowKernels& row_kernels();

}  // namespace row_math
