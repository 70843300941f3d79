#include "embedding/operators.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "common/operators.h"

namespace gr_ops::embedding {
namespace {

using PoolSignature = decltype(pool_kernel<nullptr, c10::SymInt>);
using UpdateSignature = decltype(update_kernel<nullptr, c10::SymInt>);

}  // namespace

at::Tensor call_pool(const Lookup& lookup) {
  static const auto op = find_operator<PoolSignature>("mxrec::embedding_pool");
  return op.call(lookup.weights, lookup.weights_offsets, lookup.d_offsets, lookup.total_d, lookup.max_d,
                 lookup.hash_size_cumsum, lookup.indices, lookup.offsets, lookup.pooling, lookup.indice_weights,
                 lookup.output_dtype);
}

at::Tensor call_update(const at::Tensor& grad_output, const Lookup& lookup, const Optimizer& optimizer,
                       const UpdateOptions& options) {
  TORCH_CHECK(lookup.hash_size_cumsum.has_value(), "embedding_update: hash_size_cumsum is missing");
  static const auto op = find_operator<UpdateSignature>("mxrec::embedding_update");
  return op.call(grad_output, lookup.weights, lookup.weights_offsets, lookup.d_offsets, lookup.max_d,
                 *lookup.hash_size_cumsum, lookup.total_hash_size_bits, lookup.indices, lookup.offsets, lookup.pooling,
                 lookup.indice_weights, options.feature_requires_grad, options.weights_gradient, options.max_gradient,
                 optimizer.traits().number, optimizer.momentum1, optimizer.momentum1_offsets, optimizer.momentum2,
                 optimizer.momentum2_offsets, optimizer.learning_rate, optimizer.eps, optimizer.beta1, optimizer.beta2,
                 optimizer.weight_decay, optimizer.weight_decay_mode, optimizer.max_norm, optimizer.iter,
                 options.stochastic_rounding);
}

uint64_t draw_rounding_seed() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

at::ScalarType output_type(int64_t output_dtype) {
  switch (output_dtype) {
    case 0:
      return at::kFloat;
    case 1:
      return at::kHalf;
    case 5:
      return at::kBFloat16;
    default:
      TORCH_CHECK(false,
                  "split_embedding_codegen_lookup: output_dtype is not supported; expected 0 (float32), 1 "
                  "(float16) or 5 (bfloat16), got ",
                  output_dtype);
  }
}

}  // namespace gr_ops::embedding
