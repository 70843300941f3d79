#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

// The operators' arguments, checked by the same code on every device, and their calls through the dispatcher.
namespace gr_ops::sampled_softmax {

using OptionalTensor = std::optional<at::Tensor>;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;  // the loss; of query, rows

void check(const char* op, const at::Tensor& query, const at::Tensor& rows, const at::Tensor& targets,
           const at::Tensor& negatives, const OptionalTensor& correction, const OptionalTensor& place, int64_t group,
           double temperature, double eps);

// Exponentials of 16-bit logits are worth little.
inline at::ScalarType type_of_loss(const at::Tensor& query) {
  return query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor call_loss(const at::Tensor& query, const at::Tensor& rows, const at::Tensor& targets,
                     const at::Tensor& negatives, const OptionalTensor& correction, const OptionalTensor& place,
                     int64_t group, double temperature, double eps);
Gradients call_gradients(const at::Tensor& query, const at::Tensor& rows, const at::Tensor& targets,
                         const at::Tensor& negatives, const OptionalTensor& correction, const OptionalTensor& place,
                         int64_t group, double temperature, double eps);

}  // namespace gr_ops::sampled_softmax
