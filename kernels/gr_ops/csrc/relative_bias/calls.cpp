#include "relative_bias/calls.h"

#include <c10/util/Exception.h>

#include "common/operators.h"

namespace gr_ops::relative_bias {
namespace {

void check_long(const char* op, const char* name, const at::Tensor& tensor, const at::Tensor& reference) {
  TORCH_CHECK(tensor.dim() == 1, op, ": ", name, " must be 1-D, got shape ", tensor.sym_sizes());
  TORCH_CHECK(tensor.scalar_type() == at::kLong, op, ": ", name, " has an unsupported dtype; expected int64, got ",
              tensor.scalar_type());
  TORCH_CHECK(tensor.device() == reference.device(), op, ": expected ", name, " on ", reference.device(), ", got ",
              tensor.device());
}

bool equal(const c10::SymInt& a, const c10::SymInt& b) { return a.sym_eq(b).expect_true(__FILE__, __LINE__); }

void check_contexts(const char* op, int64_t contexts) {
  TORCH_CHECK(contexts >= 0, op, ": contexts must not be negative, got ", contexts);
}

}  // namespace

void check_times(const char* op, const at::Tensor& times, const at::Tensor& offsets, const at::Tensor& thresholds,
                 int64_t contexts) {
  check_long(op, "times", times, times);
  check_long(op, "offsets", offsets, times);
  check_long(op, "thresholds", thresholds, times);
  TORCH_CHECK(offsets.sym_size(0).sym_gt(0).expect_true(__FILE__, __LINE__), op,
              ": offsets is empty; expected [B + 1]");
  TORCH_CHECK(thresholds.size(0) > 0 && thresholds.size(0) <= 32767, op,
              ": thresholds must hold 1 to 32767 of them, got ", thresholds.size(0));
  check_contexts(op, contexts);
}

void check_bias(const char* op, const at::Tensor& position, const at::Tensor& time, const at::Tensor& buckets,
                const at::Tensor& offsets, const OptionalTensor& history, int64_t contexts) {
  const at::ScalarType dtype = position.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kDouble, op,
              ": position has an unsupported dtype; expected float32 or float64, got ", dtype);
  TORCH_CHECK(position.dim() == 1 && time.dim() == 1, op, ": position and time must be 1-D, got shapes ",
              position.sym_sizes(), " and ", time.sym_sizes());
  TORCH_CHECK(time.scalar_type() == dtype, op, ": time differs in dtype; expected that of position (", dtype, "), got ",
              time.scalar_type());
  TORCH_CHECK(buckets.scalar_type() == at::kShort, op, ": buckets has an unsupported dtype; expected int16, got ",
              buckets.scalar_type());
  TORCH_CHECK(buckets.dim() == 3 && equal(buckets.sym_size(1), buckets.sym_size(2)), op,
              ": buckets must have the shape [B, S, S], got ", buckets.sym_sizes());
  for (const auto& [name, tensor] : {std::pair("time", time), std::pair("buckets", buckets)}) {
    TORCH_CHECK(tensor.device() == position.device(), op, ": expected ", name, " on ", position.device(), ", got ",
                tensor.device());
  }
  check_long(op, "offsets", offsets, position);
  TORCH_CHECK(equal(offsets.sym_size(0), buckets.sym_size(0) + 1), op, ": offsets has ", offsets.sym_size(0),
              " entries; expected B + 1 for buckets of shape ", buckets.sym_sizes());
  if (history.has_value()) {
    check_long(op, "history", *history, position);
    TORCH_CHECK(equal(history->sym_size(0), buckets.sym_size(0)), op, ": history has ", history->sym_size(0),
                " entries; expected B for buckets of shape ", buckets.sym_sizes());
  }
  check_contexts(op, contexts);
}

void check_grad(const char* op, const at::Tensor& grad, const at::Tensor& position, const at::Tensor& buckets) {
  TORCH_CHECK(grad.scalar_type() == position.scalar_type(), op, ": grad differs in dtype; expected that of position (",
              position.scalar_type(), "), got ", grad.scalar_type());
  TORCH_CHECK(grad.device() == position.device(), op, ": expected grad on ", position.device(), ", got ",
              grad.device());
  const bool same = grad.dim() == 4 && equal(grad.sym_size(0), buckets.sym_size(0)) && equal(grad.sym_size(1), 1) &&
                    equal(grad.sym_size(2), buckets.sym_size(1)) && equal(grad.sym_size(3), buckets.sym_size(2));
  TORCH_CHECK(same, op, ": grad differs in shape; expected [B, 1, S, S] for buckets of shape ", buckets.sym_sizes(),
              ", got ", grad.sym_sizes());
}

at::Tensor call_bias(const at::Tensor& position, const at::Tensor& time, const at::Tensor& buckets,
                     const at::Tensor& offsets, const OptionalTensor& history, int64_t contexts) {
  static const auto op = find_operator<decltype(call_bias)>("mxrec::hstu_relative_bias");
  return op.call(position, time, buckets, offsets, history, contexts);
}

Gradients call_bias_backward(const at::Tensor& grad, const at::Tensor& position, const at::Tensor& time,
                             const at::Tensor& buckets, const at::Tensor& offsets, const OptionalTensor& history,
                             int64_t contexts) {
  static const auto op = find_operator<decltype(call_bias_backward)>("mxrec::hstu_relative_bias_backward");
  return op.call(grad, position, time, buckets, offsets, history, contexts);
}

}  // namespace gr_ops::relative_bias
