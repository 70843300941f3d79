#include <torch/library.h>

#include "cumsum/checks.h"

namespace gr_ops {
namespace {

at::Tensor complete_cumsum(const at::Tensor& lengths) {
  check_cumsum_input("asynchronous_complete_cumsum", lengths);
  std::vector<c10::SymInt> shape = lengths.sym_sizes().vec();
  shape.back() = shape.back() + 1;
  return lengths.new_empty_symint(shape);
}

at::Tensor same_shape_cumsum(const at::Tensor& lengths) {
  check_cumsum_input("asynchronous_cumsum", lengths);
  return lengths.new_empty_symint(lengths.sym_sizes());
}

void register_meta(torch::Library& m) {
  m.impl("asynchronous_complete_cumsum", &complete_cumsum);
  m.impl("asynchronous_inclusive_cumsum", &same_shape_cumsum);
  m.impl("asynchronous_exclusive_cumsum", &same_shape_cumsum);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Meta, m) { register_meta(m); }
TORCH_LIBRARY_IMPL(fbgemm, Meta, m) { register_meta(m); }

}  // namespace gr_ops
