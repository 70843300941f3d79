#pragma once

#include "hstu/arguments.h"

// Validation of the HSTU operators (docs/operators.md), shared by every back end and the Meta kernels. Looks
// at shapes, dtypes, devices and plain arguments only; what the tensors hold is checked in rows.h.
namespace gr_ops::hstu {

// Raises on any fault; sizes may be symbolic.
void check(const Arguments& arguments);

}  // namespace gr_ops::hstu
