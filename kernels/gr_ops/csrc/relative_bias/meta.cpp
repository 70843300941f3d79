#include <torch/library.h>

#include "relative_bias/calls.h"

namespace gr_ops::relative_bias {
namespace {

at::Tensor time_buckets(const at::Tensor& times, const at::Tensor& offsets, const at::Tensor& thresholds,
                        c10::SymInt longest, int64_t contexts) {
  check_times("hstu_time_buckets", times, offsets, thresholds, contexts);
  return times.new_empty_symint({offsets.sym_size(0) - 1, longest, longest}, times.options().dtype(at::kShort));
}

at::Tensor bias(const at::Tensor& position, const at::Tensor& time, const at::Tensor& buckets,
                const at::Tensor& offsets, const OptionalTensor& history, int64_t contexts) {
  check_bias("hstu_relative_bias", position, time, buckets, offsets, history, contexts);
  return position.new_empty_symint({buckets.sym_size(0), 1, buckets.sym_size(1), buckets.sym_size(2)});
}

Gradients bias_backward(const at::Tensor& grad, const at::Tensor& position, const at::Tensor& time,
                        const at::Tensor& buckets, const at::Tensor& offsets, const OptionalTensor& history,
                        int64_t contexts) {
  check_bias("hstu_relative_bias_backward", position, time, buckets, offsets, history, contexts);
  check_grad("hstu_relative_bias_backward", grad, position, buckets);
  return {position.new_empty_symint(position.sym_sizes()), time.new_empty_symint(time.sym_sizes())};
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Meta, m) {
  m.impl("hstu_time_buckets", &time_buckets);
  m.impl("hstu_relative_bias", &bias);
  m.impl("hstu_relative_bias_backward", &bias_backward);
}

}  // namespace gr_ops::relative_bias
