// Operators whose result, or the size of it, the host needs: on a device it waits for the stream.
#pragma once
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

namespace twin {

// Whether the true elements of an argument are counted.
bool IsMask(const at::Tensor& tensor);

// `mask`: one of the arguments is a mask.
bool GivesHostValue(const c10::OperatorHandle& op, bool mask);

}  // namespace twin
