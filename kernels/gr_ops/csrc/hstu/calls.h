#pragma once

#include "hstu/arguments.h"

namespace gr_ops::hstu {

// Calls the operator named in the arguments, through the dispatcher.
at::Tensor call_forward(const Arguments& arguments);
Gradients call_backward(const Arguments& arguments);

}  // namespace gr_ops::hstu
