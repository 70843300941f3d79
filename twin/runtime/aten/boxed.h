// The kernel that runs any ATen operator of NPU tensors by its CPU kernel over the same memory.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace twin {

void RunOnCpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// For operators that are composite in PyTorch and that torch_npu gave a kernel of its own: PyTorch's decomposition.
void RunDecomposition(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// For operators whose autograd formula torch_npu replaced: PyTorch's formula, over the kernel at PrivateUse2.
void RunStockAutograd(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

}  // namespace twin
