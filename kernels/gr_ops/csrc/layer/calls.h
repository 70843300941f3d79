#pragma once

#include <tuple>
#include <vector>

#include "layer/checks.h"

// The operators' C++ signatures, and their calls through the dispatcher.
namespace gr_ops::layer {

using ProjectionGradients = std::tuple<at::Tensor, at::Tensor>;                    // of x, weight
using GateGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;  // of attended, u, weight, bias

std::vector<at::Tensor> call_projection(const at::Tensor& x, const at::Tensor& weight, at::IntArrayRef split,
                                        double eps);
ProjectionGradients call_projection_backward(at::TensorList grads, const at::Tensor& x, const at::Tensor& weight,
                                             at::IntArrayRef split, double eps);
at::Tensor call_gate(const at::Tensor& attended, const at::Tensor& u, const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias, const OptionalTensor& keep, double scale, double eps);
GateGradients call_gate_backward(const at::Tensor& grad, const at::Tensor& attended, const at::Tensor& u,
                                 const at::Tensor& weight, const OptionalTensor& keep, double scale, double eps);

}  // namespace gr_ops::layer
