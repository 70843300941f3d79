#include "sampled_softmax/arguments.h"

#include <c10/util/Exception.h>

#include "common/operators.h"

namespace gr_ops::sampled_softmax {
namespace {

void check_matrix(const char* op, const char* name, const at::Tensor& tensor, const char* shape) {
  TORCH_CHECK(tensor.dim() == 2, op, ": ", name, " must be 2-D; expected ", shape, ", got shape ", tensor.sym_sizes());
}

void check_device(const char* op, const char* name, const at::Tensor& tensor, const at::Tensor& query) {
  TORCH_CHECK(tensor.device() == query.device(), op, ": expected ", name, " on ", query.device(), ", got ",
              tensor.device());
}

void check_integers(const char* op, const char* name, const at::Tensor& tensor, const at::Tensor& query) {
  TORCH_CHECK(tensor.scalar_type() == at::kLong, op, ": ", name, " has an unsupported dtype; expected int64, got ",
              tensor.scalar_type());
  check_device(op, name, tensor, query);
}

void check_sizes(const char* op, const char* name, const at::Tensor& tensor, const char* shape,
                 c10::SymIntArrayRef expected) {
  bool same = tensor.dim() == static_cast<int64_t>(expected.size());
  for (size_t d = 0; same && d < expected.size(); ++d) {
    same = tensor.sym_size(static_cast<int64_t>(d)).sym_eq(expected[d]).expect_true(__FILE__, __LINE__);
  }
  TORCH_CHECK(same, op, ": ", name, " differs in shape; expected ", shape, " = ", expected, ", got ",
              tensor.sym_sizes());
}

}  // namespace

void check(const char* op, const at::Tensor& query, const at::Tensor& rows, const at::Tensor& targets,
           const at::Tensor& negatives, const OptionalTensor& correction, const OptionalTensor& place, int64_t group,
           double temperature, double eps) {
  check_matrix(op, "query", query, "[I, D]");
  check_matrix(op, "rows", rows, "[U, D]");
  check_matrix(op, "negatives", negatives, "[G, R]");
  const at::ScalarType dtype = query.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf || dtype == at::kBFloat16, op,
              ": query has an unsupported dtype; expected float32, float64, float16 or bfloat16, got ", dtype);
  TORCH_CHECK(rows.scalar_type() == dtype, op, ": rows differs in dtype; expected that of query (", dtype, "), got ",
              rows.scalar_type());
  check_device(op, "rows", rows, query);
  const c10::SymInt tokens = query.sym_size(0);
  check_sizes(op, "rows", rows, "[U, D]", {rows.sym_size(0), query.sym_size(1)});
  check_integers(op, "targets", targets, query);
  check_sizes(op, "targets", targets, "[I]", {tokens});
  check_integers(op, "negatives", negatives, query);
  TORCH_CHECK(temperature > 0, op, ": temperature must be greater than 0, got ", temperature);
  TORCH_CHECK(eps >= 0, op, ": eps must not be negative, got ", eps);
  TORCH_CHECK(group > 0, op, ": group must be greater than 0, got ", group);
  const c10::SymInt cells = negatives.sym_size(0) * group;
  TORCH_CHECK(tokens.sym_le(cells).expect_true(__FILE__, __LINE__), op, ": query has ", tokens,
              " tokens; expected at most G * group = ", cells);
  if (correction.has_value()) {
    TORCH_CHECK(correction->is_floating_point(), op,
                ": correction has an unsupported dtype; expected a floating type, got ", correction->scalar_type());
    check_device(op, "correction", *correction, query);
    check_sizes(op, "correction", *correction, "[G, R]", negatives.sym_sizes());
  }
  if (place.has_value()) {
    check_integers(op, "place", *place, query);
    check_sizes(op, "place", *place, "[I]", {tokens});
  }
}

at::Tensor call_loss(const at::Tensor& query, const at::Tensor& rows, const at::Tensor& targets,
                     const at::Tensor& negatives, const OptionalTensor& correction, const OptionalTensor& place,
                     int64_t group, double temperature, double eps) {
  static const auto op = find_operator<decltype(call_loss)>("mxrec::sampled_softmax");
  return op.call(query, rows, targets, negatives, correction, place, group, temperature, eps);
}

Gradients call_gradients(const at::Tensor& query, const at::Tensor& rows, const at::Tensor& targets,
                         const at::Tensor& negatives, const OptionalTensor& correction, const OptionalTensor& place,
                         int64_t group, double temperature, double eps) {
  static const auto op = find_operator<decltype(call_gradients)>("mxrec::sampled_softmax_gradients");
  return op.call(query, rows, targets, negatives, correction, place, group, temperature, eps);
}

}  // namespace gr_ops::sampled_softmax
