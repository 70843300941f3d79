#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "aclnn/operator.h"
#include "common/settings.h"
#include "embedding/checks.h"
#include "embedding/operators.h"
#include "faults/npu_faults.h"

namespace gr_ops::embedding {
namespace {

constexpr const char* kLookup = "split_embedding_codegen_lookup";
constexpr const char* kBackward = "split_embedding_backward_codegen";

Lookup prepared(const Lookup& given) {
  Lookup lookup = given;
  lookup.weights_offsets = given.weights_offsets.to(at::kLong).contiguous();
  lookup.d_offsets = given.d_offsets.to(at::kInt).contiguous();
  lookup.indices = given.indices.contiguous();
  lookup.offsets = given.offsets.contiguous();
  if (given.hash_size_cumsum) lookup.hash_size_cumsum = given.hash_size_cumsum->to(at::kLong).contiguous();
  if (given.indice_weights) lookup.indice_weights = given.indice_weights->contiguous();
  return lookup;
}

// MXREC_CHECK=1: the checks of the CPU, on a copy.
void check_values_if_enabled(const char* op, const Lookup& lookup, int64_t output_width, const Optimizer* optimizer) {
  if (!value_checks_enabled()) return;
  const Lookup host = to_cpu(lookup);
  auto features = describe_features(op, host, output_width);
  if (optimizer != nullptr) {
    Optimizer copy = *optimizer;
    if (copy.momentum1_offsets) copy.momentum1_offsets = copy.momentum1_offsets->cpu();
    if (copy.momentum2_offsets) copy.momentum2_offsets = copy.momentum2_offsets->cpu();
    describe_state(op, copy, features);
  }
  check_offset_values(op, host);
  if (optimizer != nullptr) check_shared_rows(op, host, features);
  check_index_values(op, host, features);
}

const aclTensor* handle(aclnn::Arguments& arguments, const std::optional<at::Tensor>& tensor) {
  return tensor ? arguments.tensor(*tensor) : nullptr;
}

std::optional<at::Tensor> wide(const std::optional<at::Tensor>& integers) {
  if (!integers) return std::nullopt;
  return integers->to(at::kLong).contiguous();
}

at::Tensor pool(const Lookup& given) {
  check_lookup(kLookup, given);
  const auto options = given.weights.options().dtype(output_type(given.output_dtype));
  const int64_t total_d = given.total_d.expect_int();
  const int64_t max_d = given.max_d.expect_int();
  TORCH_CHECK(max_d >= 1, kLookup, ": max_D must be positive; expected the greatest embedding dim, got ", max_d);
  check_values_if_enabled(kLookup, given, total_d, nullptr);
  const c10::DeviceGuard guard(given.weights.device());
  const bool pooled = given.pooling != kNone;
  const std::vector<int64_t> shape = {pooled ? batch_size(given).expect_int() : given.indices.numel(),
                                      pooled ? total_d : max_d};
  if (given.indices.numel() == 0) return at::zeros(shape, options);
  at::Tensor out = at::empty(shape, options);
  if (out.numel() == 0) return out;

  const Lookup lookup = prepared(given);
  using Handle = const aclTensor*;
  static const aclnn::Operator<Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle,
                               Handle, Handle, int64_t, int64_t, int64_t, int64_t, bool, bool, Handle, Handle>
      run("aclnnSplitEmbeddingCodegenForwardUnweighted");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& a = *arguments;
  const Handle records = a.tensor(npu::fault_records());
  run(arguments, a.tensor(lookup.weights), nullptr, nullptr, nullptr, a.tensor(lookup.weights_offsets),
      a.tensor(lookup.d_offsets), a.tensor(lookup.indices), a.tensor(lookup.offsets), nullptr, nullptr, nullptr,
      handle(a, lookup.indice_weights), records, total_d, max_d, lookup.pooling, lookup.output_dtype, false, false,
      a.tensor(out), records);
  return out;
}

void run_backward(const at::Tensor& gradient, const Lookup& lookup, const Optimizer& optimizer,
                  const UpdateOptions& options, const at::Tensor& weights_gradient) {
  using Handle = const aclTensor*;
  static const aclnn::Operator<Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle,
                               Handle,                                                          // grad .. lxu locations
                               Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle,  // momenta
                               Handle, Handle, Handle, Handle, Handle, Handle,                  // hints, weights, mask
                               int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                               int64_t, int64_t, double, double, double, double, double, double, double, int64_t, bool,
                               bool, double, double, int64_t,  // attributes
                               Handle, Handle, Handle, Handle>
      run("aclnnBackwardCodegenAdagradUnweightedExact");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& a = *arguments;
  const auto momentum1 = optimizer.has_momentum1() ? optimizer.momentum1 : std::nullopt;
  const auto momentum2 = optimizer.has_momentum2() ? optimizer.momentum2 : std::nullopt;
  const auto momentum1_offsets = optimizer.has_momentum1() ? wide(optimizer.momentum1_offsets) : std::nullopt;
  const auto momentum2_offsets = optimizer.has_momentum2() ? wide(optimizer.momentum2_offsets) : std::nullopt;
  std::optional<at::Tensor> mask;
  if (options.weights_gradient && options.feature_requires_grad) {
    mask = options.feature_requires_grad->to(lookup.weights.device(), at::kInt).contiguous();
  }
  const bool by_chance = options.rounds_by_chance(lookup.weights);
  const int64_t seed = by_chance ? static_cast<int64_t>(draw_rounding_seed()) : 0;
  run(arguments, a.tensor(gradient), a.tensor(lookup.weights), nullptr, nullptr, nullptr,
      a.tensor(lookup.weights_offsets), a.tensor(lookup.d_offsets), a.tensor(*lookup.hash_size_cumsum),
      a.tensor(lookup.indices), a.tensor(lookup.offsets), nullptr, handle(a, momentum1), nullptr, nullptr,
      handle(a, momentum1_offsets), handle(a, momentum2), nullptr, nullptr, handle(a, momentum2_offsets), nullptr,
      nullptr, nullptr, nullptr, handle(a, lookup.indice_weights), handle(a, mask), lookup.max_d.expect_int(),
      lookup.total_hash_size_bits, lookup.pooling, 0, 0, by_chance ? 1 : 0, 0, 0, 0, 0, optimizer.traits().npu_type,
      optimizer.iter, optimizer.eps, optimizer.learning_rate, optimizer.beta1, optimizer.beta2, optimizer.weight_decay,
      optimizer.max_norm, options.max_gradient, optimizer.weight_decay_mode, false, options.weights_gradient,
      1.0 - optimizer.beta1, 1.0 - optimizer.beta2, seed, a.tensor(weights_gradient), handle(a, momentum1),
      handle(a, momentum2), a.tensor(lookup.weights));
}

at::Tensor update(const at::Tensor& grad_output, const Lookup& given, const Optimizer& optimizer,
                  const UpdateOptions& options) {
  check_gradient(kBackward, grad_output, given, optimizer, options);
  const int64_t max_d = given.max_d.expect_int();
  TORCH_CHECK(max_d >= 1 && max_d <= grad_output.size(1), kBackward, ": max_D is wrong; expected 1 to ",
              grad_output.size(1), " as grad_output has columns, got ", max_d);
  check_values_if_enabled(kBackward, given, grad_output.size(1), &optimizer);
  const c10::DeviceGuard guard(given.weights.device());
  const int64_t count = given.indices.numel();
  const auto floats = given.weights.options().dtype(at::kFloat);
  // Without elements there is nothing to launch for.
  const at::Tensor weights_gradient =
      options.weights_gradient && count > 0 ? at::zeros({count}, floats) : at::empty({0}, floats);
  if (count == 0) return weights_gradient;
  run_backward(grad_output.contiguous(), prepared(given), optimizer, options, weights_gradient);
  return weights_gradient;
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, PrivateUse1, m) {
  m.impl("embedding_pool", &pool_kernel<&pool, int64_t>);
  m.impl("embedding_update", &update_kernel<&update, int64_t>);
}

}  // namespace gr_ops::embedding
