#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

// Validation of the operators around HSTU's attention, shared by the kernels of all devices.
namespace gr_ops::layer {

using OptionalTensor = std::optional<at::Tensor>;

// One dtype; or rows between layers (x, the result, and their gradients) in float32 beside 16 bits, as under autocast.
void check_projection(const char* op, const at::Tensor& x, const at::Tensor& weight, at::IntArrayRef split);
void check_projection_grads(const char* op, at::TensorList grads, const at::Tensor& x, const at::Tensor& weight,
                            at::IntArrayRef split);

void check_gate(const char* op, const at::Tensor& attended, const at::Tensor& u, const at::Tensor& weight,
                const OptionalTensor& keep);
// A tensor [L, D] beside attended [L, V] and weight [D, V]: x, or the gradient of the result.
void check_gate_rows(const char* op, const char* name, const at::Tensor& tensor, const at::Tensor& attended,
                     const at::Tensor& weight);
void check_gate_bias(const char* op, const at::Tensor& bias, const at::Tensor& weight);

// Of an element to be dropped.
void check_probability(const char* op, double p);

}  // namespace gr_ops::layer
