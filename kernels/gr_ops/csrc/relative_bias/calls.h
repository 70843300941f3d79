#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

// The operators' validation, shared by the CPU and the Meta kernels, and their calls through the dispatcher.
namespace gr_ops::relative_bias {

using OptionalTensor = std::optional<at::Tensor>;
using Gradients = std::tuple<at::Tensor, at::Tensor>;  // of position, time

void check_times(const char* op, const at::Tensor& times, const at::Tensor& offsets, const at::Tensor& thresholds,
                 int64_t contexts);
void check_bias(const char* op, const at::Tensor& position, const at::Tensor& time, const at::Tensor& buckets,
                const at::Tensor& offsets, const OptionalTensor& history, int64_t contexts);
// grad [B, 1, S, S], like the result.
void check_grad(const char* op, const at::Tensor& grad, const at::Tensor& position, const at::Tensor& buckets);

at::Tensor call_bias(const at::Tensor& position, const at::Tensor& time, const at::Tensor& buckets,
                     const at::Tensor& offsets, const OptionalTensor& history, int64_t contexts);
Gradients call_bias_backward(const at::Tensor& grad, const at::Tensor& position, const at::Tensor& time,
                             const at::Tensor& buckets, const at::Tensor& offsets, const OptionalTensor& history,
                             int64_t contexts);

}  // namespace gr_ops::relative_bias
