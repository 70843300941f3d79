// One call of an ATen operator for TWIN_COUNTS.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

namespace twin {

// Counts a launch, and a wait of the host where the operator gives it a value. `arguments` as the program gave them.
void CountCall(const c10::OperatorHandle& op, const c10::IValue* arguments);

}  // namespace twin
