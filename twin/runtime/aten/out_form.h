// Operators that write their result where it is to lie: the geometry of the result is known before they run.
#pragma once
#include <cstddef>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace twin {

struct OutForm {
  c10::OperatorHandle op;  // the operator's form with `out`
  at::Tensor (*geometry)(const c10::IValue* arguments);
  std::vector<std::size_t> arguments;  // which of the operator's come before `out`

  // Of the result, as a tensor without memory; undefined where only the kernel itself knows it.
  at::Tensor GeometryOf(const c10::IValue* given, std::size_t count) const;

  // Calls it in the operator's stead, with `out` for the result.
  void Call(torch::jit::Stack* stack, std::size_t count, const at::Tensor& out) const;
};

// Null for an operator that makes its result itself.
const OutForm* OutFormOf(const c10::OperatorHandle& op);

}  // namespace twin
