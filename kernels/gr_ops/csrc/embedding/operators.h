#pragma once

#include "embedding/lookup.h"

namespace gr_ops::embedding {

// Through the dispatcher, to the back end of the tensors.
at::Tensor call_pool(const Lookup& lookup);
at::Tensor call_update(const at::Tensor& grad_output, const Lookup& lookup, const Optimizer& optimizer,
                       const UpdateOptions& options);

// What a back end implements, and its registration as kernels of the two operators.
using PoolFunction = at::Tensor (*)(const Lookup& lookup);
using UpdateFunction = at::Tensor (*)(const at::Tensor& grad_output, const Lookup& lookup, const Optimizer& optimizer,
                                      const UpdateOptions& options);

template <PoolFunction function, typename Size>
at::Tensor pool_kernel(const at::Tensor& weights, const at::Tensor& weights_offsets, const at::Tensor& d_offsets,
                       Size total_d, Size max_d, const std::optional<at::Tensor>& hash_size_cumsum,
                       const at::Tensor& indices, const at::Tensor& offsets, int64_t pooling_mode,
                       const std::optional<at::Tensor>& indice_weights, int64_t output_dtype) {
  Lookup lookup;
  lookup.weights = weights;
  lookup.weights_offsets = weights_offsets;
  lookup.d_offsets = d_offsets;
  lookup.total_d = total_d;
  lookup.max_d = max_d;
  lookup.hash_size_cumsum = hash_size_cumsum;
  lookup.indices = indices;
  lookup.offsets = offsets;
  lookup.pooling = pooling_mode;
  lookup.indice_weights = indice_weights;
  lookup.output_dtype = output_dtype;
  return function(lookup);
}

template <UpdateFunction function, typename Size>
at::Tensor update_kernel(const at::Tensor& grad_output, const at::Tensor& weights, const at::Tensor& weights_offsets,
                         const at::Tensor& d_offsets, Size max_d, const at::Tensor& hash_size_cumsum,
                         int64_t total_hash_size_bits, const at::Tensor& indices, const at::Tensor& offsets,
                         int64_t pooling_mode, const std::optional<at::Tensor>& indice_weights,
                         const std::optional<at::Tensor>& feature_requires_grad, bool weights_gradient,
                         double max_gradient, int64_t kind, const std::optional<at::Tensor>& momentum1,
                         const std::optional<at::Tensor>& momentum1_offsets, const std::optional<at::Tensor>& momentum2,
                         const std::optional<at::Tensor>& momentum2_offsets, double learning_rate, double eps,
                         double beta1, double beta2, double weight_decay, int64_t weight_decay_mode, double max_norm,
                         int64_t iter, bool stochastic_rounding) {
  Lookup lookup;
  lookup.weights = weights;
  lookup.weights_offsets = weights_offsets;
  lookup.d_offsets = d_offsets;
  lookup.max_d = max_d;
  lookup.hash_size_cumsum = hash_size_cumsum;
  lookup.total_hash_size_bits = total_hash_size_bits;
  lookup.indices = indices;
  lookup.offsets = offsets;
  lookup.pooling = pooling_mode;
  lookup.indice_weights = indice_weights;
  Optimizer optimizer;
  optimizer.kind = &optimizer_traits("embedding_update", kind);
  optimizer.momentum1 = momentum1;
  optimizer.momentum1_offsets = momentum1_offsets;
  optimizer.momentum2 = momentum2;
  optimizer.momentum2_offsets = momentum2_offsets;
  optimizer.learning_rate = learning_rate;
  optimizer.eps = eps;
  optimizer.beta1 = beta1;
  optimizer.beta2 = beta2;
  optimizer.weight_decay = weight_decay;
  optimizer.weight_decay_mode = weight_decay_mode;
  optimizer.max_norm = max_norm;
  optimizer.iter = iter;
  return function(grad_output, lookup, optimizer,
                  {feature_requires_grad, weights_gradient, max_gradient, stochastic_rounding});
}

}  // namespace gr_ops::embedding
