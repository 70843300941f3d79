// Which tensors one call of an ATen operator may mix. A forgotten `.npu()` is the commonest fault of a port: the CPU
// kernels that run here could read either memory, torch_npu on a device refuses, and so must this.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

namespace twin {

// Throws c10::Error, with PyTorch's own message, unless all tensors are on one device or the operator takes the mix.
void RequireSameDevice(const c10::OperatorHandle& op, const c10::IValue* arguments);

// A result that PyTorch keeps on the CPU, whatever device the arguments are on.
bool StaysOnHost(const c10::OperatorHandle& op, size_t result);

}  // namespace twin
