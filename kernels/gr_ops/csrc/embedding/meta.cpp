#include <torch/library.h>

#include "embedding/checks.h"
#include "embedding/operators.h"

namespace gr_ops::embedding {
namespace {

at::Tensor pool(const Lookup& lookup) {
  check_lookup("split_embedding_codegen_lookup", lookup);
  const auto options = lookup.weights.options().dtype(output_type(lookup.output_dtype));
  if (lookup.pooling == kNone) {
    return lookup.weights.new_empty_symint({lookup.indices.sym_numel(), lookup.max_d}, options);
  }
  return lookup.weights.new_empty_symint({batch_size(lookup), lookup.total_d}, options);
}

at::Tensor update(const at::Tensor& grad_output, const Lookup& lookup, const Optimizer& optimizer,
                  const UpdateOptions& options) {
  check_gradient("split_embedding_backward_codegen", grad_output, lookup, optimizer, options);
  const c10::SymInt size = options.weights_gradient ? lookup.indices.sym_numel() : c10::SymInt(0);
  return lookup.weights.new_empty_symint({size}, lookup.weights.options().dtype(at::kFloat));
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Meta, m) {
  m.impl("embedding_pool", &pool_kernel<&pool, c10::SymInt>);
  m.impl("embedding_update", &update_kernel<&update, c10::SymInt>);
}

}  // namespace gr_ops::embedding
