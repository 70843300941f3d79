#include <torch/library.h>

#include <vector>

#include "rank1/checks.h"

namespace gr_ops {
namespace {

at::Tensor gather_for_rank1(const at::Tensor& x, const at::Tensor& index) {
  check_gather("gather_for_rank1", x, index);
  return x.new_empty_symint(index.sym_sizes());
}

std::vector<at::Tensor> index_select_for_rank1_backward(const at::Tensor& grad, const at::Tensor& x,
                                                        const at::Tensor& index) {
  check_gather_grad("index_select_for_rank1_backward", grad, x, index);
  return {x.new_empty_symint(x.sym_sizes()), index.new_empty_symint(index.sym_sizes())};
}

void register_meta(torch::Library& m) {
  m.impl("gather_for_rank1", &gather_for_rank1);
  m.impl("index_select_for_rank1_backward", &index_select_for_rank1_backward);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Meta, m) { register_meta(m); }
TORCH_LIBRARY_IMPL(fbgemm, Meta, m) { register_meta(m); }

}  // namespace gr_ops
