#include <torch/library.h>

#include "new_operator/checks.h"

// The shape and type of the result, without data: torch.compile, torch.export and FakeTensor ask for it.
namespace gr_ops::new_operator {
namespace {

at::Tensor meta(const at::Tensor& x, double /*factor*/) {
  check(x);
  return x.new_empty_symint(x.sym_sizes());
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Meta, m) { m.impl(kOp, &meta); }

}  // namespace gr_ops::new_operator
