#pragma once

#include "hstu/cpu/heads.h"

// Attention by the blocked kernels, shared among threads by the cost of their blocks.
namespace gr_ops::hstu {

// As hstu::new_output, from common/result.h.
at::Tensor new_cpu_output(const Arguments& arguments);

// To the output that the heads were given.
void forward_heads(const Heads& heads);

// To the gradients that the heads were given, that of a bias too.
void backward_heads(const Heads& heads);

}  // namespace gr_ops::hstu
