#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "embedding/optimizers.h"

namespace gr_ops::embedding {

enum Pooling : int64_t { kSum = 0, kMean = 1, kNone = 2 };

// Where the rows are and which ones are looked up. T features, B samples, L indices.
struct Lookup {
  at::Tensor weights;          // 1-D: all tables, row-major
  at::Tensor weights_offsets;  // [T]
  at::Tensor d_offsets;        // [T + 1]
  c10::SymInt total_d = 0;
  c10::SymInt max_d = 0;
  std::optional<at::Tensor> hash_size_cumsum;  // [T + 1]
  int64_t total_hash_size_bits = 0;
  at::Tensor indices;  // [L]
  at::Tensor offsets;  // [T * B + 1], feature-major
  int64_t pooling = kSum;
  std::optional<at::Tensor> indice_weights;  // [L] float32
  int64_t output_dtype = 0;
};

// State and scalars of the optimizer that runs in the backward pass.
struct Optimizer {
  const OptimizerTraits* kind = &kOptimizers[0];
  std::optional<at::Tensor> momentum1, momentum1_offsets;
  std::optional<at::Tensor> momentum2, momentum2_offsets;
  double learning_rate = 0;
  double eps = 0;
  double beta1 = 0;
  double beta2 = 0;
  double weight_decay = 0;
  int64_t weight_decay_mode = 0;
  double max_norm = 0;
  int64_t iter = 0;

  const OptimizerTraits& traits() const { return *kind; }
  bool has_momentum1() const { return traits().has_momentum1; }
  bool has_momentum2() const { return traits().has_momentum2; }
};

struct UpdateOptions {
  std::optional<at::Tensor> feature_requires_grad;  // [T]; concerns the gradient of indice_weights only
  bool weights_gradient = false;
  double max_gradient = -1;          // below 0: no clipping
  bool stochastic_rounding = false;  // of 16-bit weights

  bool rounds_by_chance(const at::Tensor& weights) const {
    return stochastic_rounding && weights.scalar_type() != at::kFloat;
  }
};

// A number of PyTorch's generator of the CPU, whatever the device: the host draws it, and waits for nothing.
uint64_t draw_rounding_seed();

at::ScalarType output_type(int64_t output_dtype);

}  // namespace gr_ops::embedding
