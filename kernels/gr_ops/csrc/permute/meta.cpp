#include <torch/library.h>

#include "permute/checks.h"

// Shape inference without a device. The forward operators have a size that only the data knows: the fake kernels in
// gr_ops/fake.py serve them.
namespace gr_ops {
namespace {

at::Tensor permute_sparse_data_backward(const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& grad,
                                        c10::SymInt total) {
  check_permute_grad("permute_sparse_data_backward", permute, lengths, grad, total);
  std::vector<c10::SymInt> shape = grad.sym_sizes().vec();
  shape[0] = std::move(total);
  return grad.new_empty_symint(shape);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Meta, m) { m.impl("permute_sparse_data_backward", &permute_sparse_data_backward); }

}  // namespace gr_ops
