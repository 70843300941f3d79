#include "hstu_relative/arguments.h"

#include <c10/util/Exception.h>

#include <optional>

#include "common/operators.h"
#include "hstu/checks.h"
#include "hstu/problem.h"

namespace gr_ops::hstu_relative {
namespace {

// size: of the only dimension; nullopt: any but 0.
void check_table(const hstu::Arguments& a, const char* name, const at::Tensor& tensor, at::ScalarType dtype,
                 const std::optional<c10::SymInt>& size) {
  TORCH_CHECK(tensor.device() == a.q.device(), a.op, ": expected ", name, " on ", a.q.device(), ", got ",
              tensor.device());
  const auto right_size = [&] {
    const c10::SymInt given = tensor.sym_size(0);
    return (size.has_value() ? given.sym_eq(*size) : given.sym_ge(1)).expect_true(__FILE__, __LINE__);
  };
  TORCH_CHECK(tensor.dim() == 1 && tensor.scalar_type() == dtype && right_size(), a.op, ": ", name,
              " does not fit; expected ", dtype, " [", size.has_value() ? *size : c10::SymInt(1),
              size.has_value() ? "]" : " or more]", ", got ", tensor.scalar_type(), " ", tensor.sym_sizes());
}

}  // namespace

hstu::Arguments arguments(const char* op, const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const at::Tensor& offsets, const OptionalTensor& num_context,
                          const OptionalTensor& num_target, int64_t group, int64_t max_len, double scale) {
  hstu::Arguments a =
      hstu::jagged_arguments(op, q, k, v, std::nullopt, std::nullopt, static_cast<int64_t>(hstu::Mask::Lower), max_len,
                             scale, offsets, num_context, num_target, group, 1.0, 0, 0, false, -1);
  a.grad = grad;
  return a;
}

void check(const hstu::Arguments& a, const Tables& tables) {
  hstu::check(a);
  check_table(a, "position", tables.position, at::kFloat, std::nullopt);
  check_table(a, "time", tables.time, at::kFloat, std::nullopt);
  check_table(a, "times", tables.times, at::kLong, a.q.sym_size(0));
  check_table(a, "cells", tables.cells, at::kLong, c10::SymInt(kCells));
  TORCH_CHECK(tables.position.sym_size(0).sym_ge(a.max_len).expect_true(__FILE__, __LINE__), a.op, ": position has ",
              tables.position.sym_size(0), " distances; expected max_seq_len=", a.max_len, " or more");
}

Gradients new_gradients(const hstu::Arguments& a, const Tables& tables) {
  const auto like = [](const at::Tensor& tensor) { return tensor.new_empty_symint(tensor.sym_sizes()); };
  return {like(a.q), like(a.k), like(a.v), like(tables.position), like(tables.time)};
}

at::Tensor call_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& position,
                        const at::Tensor& time, const at::Tensor& times, const at::Tensor& cells,
                        const at::Tensor& offsets, const OptionalTensor& num_context, const OptionalTensor& num_target,
                        int64_t group, int64_t max_len, double scale) {
  static const auto op = find_operator<decltype(call_forward)>("mxrec::hstu_relative");
  return op.call(q, k, v, position, time, times, cells, offsets, num_context, num_target, group, max_len, scale);
}

Gradients call_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const at::Tensor& position, const at::Tensor& time, const at::Tensor& times,
                        const at::Tensor& cells, const at::Tensor& offsets, const OptionalTensor& num_context,
                        const OptionalTensor& num_target, int64_t group, int64_t max_len, double scale) {
  static const auto op = find_operator<decltype(call_backward)>("mxrec::hstu_relative_gradients");
  return op.call(grad, q, k, v, position, time, times, cells, offsets, num_context, num_target, group, max_len, scale);
}

}  // namespace gr_ops::hstu_relative
