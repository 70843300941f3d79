#pragma once

#include <torch/library.h>

#include "hstu_relative/arguments.h"

// A back end is two functions of checked arguments:
//   TORCH_LIBRARY_IMPL(mxrec, CPU, m) { Entries<&forward, &backward>::register_in(m); }
namespace gr_ops::hstu_relative {

template <at::Tensor (*Forward)(const hstu::Arguments&, const Tables&),
          Gradients (*Backward)(const hstu::Arguments&, const Tables&)>
struct Entries {
  static at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& position,
                            const at::Tensor& time, const at::Tensor& times, const at::Tensor& cells,
                            const at::Tensor& offsets, const OptionalTensor& num_context,
                            const OptionalTensor& num_target, int64_t group, int64_t max_len, double scale) {
    const hstu::Arguments a =
        arguments("hstu_relative", at::Tensor(), q, k, v, offsets, num_context, num_target, group, max_len, scale);
    const Tables tables{position, time, times, cells};
    check(a, tables);
    return Forward(a, tables);
  }

  static Gradients backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& position, const at::Tensor& time, const at::Tensor& times,
                            const at::Tensor& cells, const at::Tensor& offsets, const OptionalTensor& num_context,
                            const OptionalTensor& num_target, int64_t group, int64_t max_len, double scale) {
    const hstu::Arguments a =
        arguments("hstu_relative_gradients", grad, q, k, v, offsets, num_context, num_target, group, max_len, scale);
    const Tables tables{position, time, times, cells};
    check(a, tables);
    return Backward(a, tables);
  }

  static void register_in(torch::Library& m) {
    m.impl("hstu_relative", &forward);
    m.impl("hstu_relative_gradients", &backward);
  }
};

}  // namespace gr_ops::hstu_relative
