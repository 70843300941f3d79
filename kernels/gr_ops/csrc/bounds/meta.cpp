#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <optional>

#include "common/override.h"

// Nothing is returned, so there is no shape to infer; and nothing is differentiable.
namespace gr_ops {
namespace {

void bounds_check_indices(const at::Tensor& /*rows_per_table*/, const at::Tensor& /*indices*/,
                          const at::Tensor& /*offsets*/, int64_t /*mode*/, const at::Tensor& /*warning*/,
                          const std::optional<at::Tensor>& /*weights*/,
                          const std::optional<at::Tensor>& /*batch_offsets*/, c10::SymInt /*max_batch*/,
                          const std::optional<at::Tensor>& /*b_t_map*/, int64_t /*info_bits*/, int64_t /*info_mask*/,
                          int64_t /*version*/) {}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Meta, m) { m.impl("bounds_check_indices", &bounds_check_indices); }

TORCH_LIBRARY_IMPL(mxrec, Autograd, m) { m.impl("bounds_check_indices", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(fbgemm, AutogradPrivateUse1, m) {
  m.impl("bounds_check_indices", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(fbgemm, AutogradCPU, m) {
  FbgemmRegistrar registrar(m);
  registrar.impl("bounds_check_indices", torch::CppFunction::makeFallthrough());
}

}  // namespace gr_ops
