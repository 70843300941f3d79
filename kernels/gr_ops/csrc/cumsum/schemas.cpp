#include <torch/library.h>

#include "common/operators.h"
#include "common/override.h"

namespace gr_ops {
namespace {

constexpr const char* kSchemas[] = {
    "asynchronous_complete_cumsum(Tensor t_in) -> Tensor",
    "asynchronous_inclusive_cumsum(Tensor t_in) -> Tensor",
    "asynchronous_exclusive_cumsum(Tensor t_in) -> Tensor",
};

// Lengths are counts: the result never requires a gradient, and no "not implemented" node is recorded.
template <typename Library>
void register_autograd(Library& m) {
  m.impl("asynchronous_complete_cumsum", torch::CppFunction::makeFallthrough());
  m.impl("asynchronous_inclusive_cumsum", torch::CppFunction::makeFallthrough());
  m.impl("asynchronous_exclusive_cumsum", torch::CppFunction::makeFallthrough());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fbgemm, m) {
  for (const char* schema : kSchemas) define_if_absent(m, "fbgemm", schema);
}

TORCH_LIBRARY_FRAGMENT(mxrec, m) {
  for (const char* schema : kSchemas) define_if_absent(m, "mxrec", schema);
}

TORCH_LIBRARY_IMPL(fbgemm, AutogradPrivateUse1, m) { register_autograd(m); }
TORCH_LIBRARY_IMPL(fbgemm, AutogradCPU, m) {
  FbgemmRegistrar registrar(m);
  register_autograd(registrar);
}
TORCH_LIBRARY_IMPL(mxrec, Autograd, m) { register_autograd(m); }

}  // namespace gr_ops
