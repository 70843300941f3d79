#include "layer/checks.h"

#include <c10/util/Exception.h>

namespace gr_ops::layer {
namespace {

void check_floating(const char* op, const char* name, const at::Tensor& tensor) {
  const at::ScalarType dtype = tensor.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf || dtype == at::kBFloat16, op, ": ",
              name, " has an unsupported dtype; expected float32, float64, float16 or bfloat16, got ", dtype);
}

void check_device(const char* op, const char* name, const at::Tensor& tensor, const at::Tensor& like) {
  TORCH_CHECK(tensor.device() == like.device(), op, ": expected ", name, " on ", like.device(), ", got ",
              tensor.device());
}

void check_like(const char* op, const char* name, const at::Tensor& tensor, const char* other, const at::Tensor& like) {
  TORCH_CHECK(tensor.scalar_type() == like.scalar_type(), op, ": ", name, " differs in dtype; expected that of ", other,
              " (", like.scalar_type(), "), got ", tensor.scalar_type());
  check_device(op, name, tensor, like);
}

// The rows between layers, beside what is multiplied.
bool is_wider(const at::Tensor& rows, const at::Tensor& multiplied) {
  const at::ScalarType type = multiplied.scalar_type();
  return rows.scalar_type() == at::kFloat && (type == at::kHalf || type == at::kBFloat16);
}

void check_sizes(const char* op, const char* name, const at::Tensor& tensor,
                 std::initializer_list<c10::SymInt> expected) {
  bool same = tensor.dim() == static_cast<int64_t>(expected.size());
  int64_t d = 0;
  for (const c10::SymInt& size : expected) {
    same = same && tensor.sym_size(d++).sym_eq(size).expect_true(__FILE__, __LINE__);
  }
  TORCH_CHECK(same, op, ": ", name, " differs in shape; expected ", c10::SymIntArrayRef(expected), ", got ",
              tensor.sym_sizes());
}

void check_matrix(const char* op, const char* name, const at::Tensor& tensor, const char* shape) {
  TORCH_CHECK(tensor.dim() == 2, op, ": ", name, " must be 2-D; expected ", shape, ", got shape ", tensor.sym_sizes());
  const c10::SymInt columns = tensor.sym_size(1);
  TORCH_CHECK(columns.sym_gt(0).expect_true(__FILE__, __LINE__), op, ": ", name, " has no columns; expected ", shape,
              ", got shape ", tensor.sym_sizes());
}

}  // namespace

void check_projection(const char* op, const at::Tensor& x, const at::Tensor& weight, at::IntArrayRef split) {
  check_matrix(op, "x", x, "[L, D]");
  check_matrix(op, "weight", weight, "[D, E]");
  check_floating(op, "x", x);
  if (is_wider(x, weight)) {
    check_device(op, "weight", weight, x);
  } else {
    check_like(op, "weight", weight, "x", x);
  }
  int64_t sum = 0;
  for (int64_t width : split) {
    TORCH_CHECK(width > 0, op, ": split must hold widths greater than 0, got ", split);
    sum += width;
  }
  check_sizes(op, "weight", weight, {x.sym_size(1), c10::SymInt(sum)});
}

void check_projection_grads(const char* op, at::TensorList grads, const at::Tensor& x, const at::Tensor& weight,
                            at::IntArrayRef split) {
  TORCH_CHECK(grads.size() == split.size(), op, ": expected as many grads as split has parts (", split.size(),
              "), got ", grads.size());
  for (size_t i = 0; i < grads.size(); ++i) {
    check_like(op, "grads", grads[i], "weight", weight);
    check_sizes(op, "grads", grads[i], {x.sym_size(0), c10::SymInt(split[i])});
  }
}

void check_gate(const char* op, const at::Tensor& attended, const at::Tensor& u, const at::Tensor& weight,
                const OptionalTensor& keep) {
  check_matrix(op, "attended", attended, "[L, V]");
  check_matrix(op, "weight", weight, "[D, V]");
  check_floating(op, "attended", attended);
  check_like(op, "u", u, "attended", attended);
  check_like(op, "weight", weight, "attended", attended);
  check_sizes(op, "u", u, {attended.sym_size(0), attended.sym_size(1)});
  check_sizes(op, "weight", weight, {weight.sym_size(0), attended.sym_size(1)});
  if (!keep.has_value()) return;
  TORCH_CHECK(keep->scalar_type() == at::kBool, op, ": keep has an unsupported dtype; expected bool, got ",
              keep->scalar_type());
  TORCH_CHECK(keep->device() == attended.device(), op, ": expected keep on ", attended.device(), ", got ",
              keep->device());
  check_sizes(op, "keep", *keep, {attended.sym_size(0), attended.sym_size(1)});
}

void check_gate_rows(const char* op, const char* name, const at::Tensor& tensor, const at::Tensor& attended,
                     const at::Tensor& weight) {
  if (is_wider(tensor, attended)) {
    check_device(op, name, tensor, attended);
  } else {
    check_like(op, name, tensor, "attended", attended);
  }
  check_sizes(op, name, tensor, {attended.sym_size(0), weight.sym_size(0)});
}

void check_gate_bias(const char* op, const at::Tensor& bias, const at::Tensor& weight) {
  check_like(op, "bias", bias, "weight", weight);
  check_sizes(op, "bias", bias, {weight.sym_size(0)});
}

void check_probability(const char* op, double p) { TORCH_CHECK(p >= 0 && p < 1, op, ": p must be in [0, 1), got ", p); }

}  // namespace gr_ops::layer
