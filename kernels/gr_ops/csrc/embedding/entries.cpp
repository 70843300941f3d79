#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <iterator>
#include <utility>

#include "common/derivatives.h"
#include "common/operators.h"
#include "common/override.h"
#include "embedding/call.h"
#include "embedding/checks.h"
#include "embedding/operators.h"
#include "embedding/schemas.h"

// fbgemm's entry points: forward, backward, and lookups whose gradient is the update of the tables.
namespace gr_ops::embedding {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;
using torch::jit::Stack;

// What a lookup leaves for its backward pass.
struct Pending : torch::CustomClassHolder {
  Lookup lookup;
  Optimizer optimizer;
  UpdateOptions options;
};

// anchor makes the output differentiable and gets no gradient itself: the tables are updated in place instead.
struct LookupFunction : torch::autograd::Function<LookupFunction> {
  static Variable forward(AutogradContext* ctx, const Variable& /*anchor*/,
                          const std::optional<Variable>& /*indice_weights*/,
                          const c10::intrusive_ptr<Pending>& pending) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->saved_data["pending"] = c10::IValue::make_capsule(pending);
    return call_pool(pending->lookup);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto capsule = ctx->saved_data["pending"].toCapsule();
    const auto& pending = static_cast<const Pending&>(*capsule);
    const at::Tensor grad = call_update(grads[0], pending.lookup, pending.optimizer, pending.options);
    return {Variable(), pending.options.weights_gradient ? grad : Variable(), Variable()};
  }
};

c10::intrusive_ptr<Pending> prepare(const Call& call, const OptimizerTraits& kind) {
  check_supported(call);
  auto pending = c10::make_intrusive<Pending>();
  pending->lookup = lookup_of(call);
  pending->optimizer = optimizer_of(call, kind);
  pending->options = update_options_of(call);
  pending->options.feature_requires_grad = call.optional_tensor("feature_requires_grad");
  const auto& weights = pending->lookup.indice_weights;
  pending->options.weights_gradient = weights.has_value() && weights->requires_grad();
  check_lookup(call.op_name().c_str(), pending->lookup);
  check_optimizer(call.op_name().c_str(), pending->lookup, pending->optimizer);
  return pending;
}

void finish(const c10::OperatorHandle& op, Stack* stack, at::Tensor result) {
  torch::jit::drop(*stack, op.schema().arguments().size());
  torch::jit::push(*stack, std::move(result));
}

template <size_t kind>  // of kOptimizers
void lookup_autograd(const c10::OperatorHandle& op, Stack* stack) {
  const Call call(op, *stack);
  const at::Tensor anchor = call.tensor(call.has("host_weights") ? "host_weights" : "placeholder_autograd_tensor");
  const auto pending = prepare(call, kOptimizers[kind]);
  const auto& factors = pending->lookup.indice_weights;
  if (differentiable(anchor) || (factors && differentiable(*factors))) {
    return finish(op, stack, LookupFunction::apply(anchor, factors, pending));
  }
  at::AutoDispatchBelowADInplaceOrView below;
  finish(op, stack, call_pool(pending->lookup));
}

template <size_t kind>  // of kOptimizers
void lookup(const c10::OperatorHandle& op, Stack* stack) {
  finish(op, stack, call_pool(prepare(Call(op, *stack), kOptimizers[kind])->lookup));
}

void forward(const c10::OperatorHandle& op, Stack* stack) {
  const Call call(op, *stack);
  check_supported(call);
  finish(op, stack, call_pool(lookup_of(call)));
}

// As in fbgemm, no gradient comes back: the tables are updated in place.
template <size_t kind>  // of kOptimizers
void backward(const c10::OperatorHandle& op, Stack* stack) {
  const Call call(op, *stack);
  check_supported(call);
  finish(op, stack,
         call_update(call.tensor("grad_output"), lookup_of(call), optimizer_of(call, kOptimizers[kind]),
                     update_options_of(call)));
}

using Boxed = void (*)(const c10::OperatorHandle&, Stack*);

template <Boxed function>
void implement(torch::Library& m, const std::string& name, c10::DispatchKey key) {
  m.impl(name.c_str(), torch::dispatch(key, torch::CppFunction::makeFromBoxedFunction<function>()));
}

template <size_t kind>  // of kOptimizers
void implement_optimizer(torch::Library& m) {
  const std::string name = kOptimizers[kind].name;
  for (const std::string& entry : {lookup_name(name), host_lookup_name(name)}) {
    implement<&lookup<kind>>(m, entry, c10::DispatchKey::CompositeExplicitAutograd);
    implement<&lookup_autograd<kind>>(m, entry, c10::DispatchKey::Autograd);
  }
  implement<&backward<kind>>(m, backward_name(name), c10::DispatchKey::CompositeExplicitAutograd);
}

// Beside kernels of fbgemm_gpu: each key by itself, and on the CPU what it lacks or, unless switched off, does wrongly.
template <size_t kind>  // of kOptimizers
void join_optimizer(torch::Library& m, bool override_cpu) {
  const std::string name = kOptimizers[kind].name;
  for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::PrivateUse1, c10::DispatchKey::Meta}) {
    implement<&lookup<kind>>(m, lookup_name(name), key);
    // learning_rate_tensor stays on the CPU: the fake kernel in gr_ops/fake.py knows, and comes in place of a Meta one.
    if (key != c10::DispatchKey::Meta) implement<&backward<kind>>(m, backward_name(name), key);
  }
  implement<&lookup_autograd<kind>>(m, lookup_name(name), c10::DispatchKey::AutogradCPU);
  implement<&lookup_autograd<kind>>(m, lookup_name(name), c10::DispatchKey::AutogradPrivateUse1);
  if (!override_cpu && !kOptimizers[kind].refused_by_fbgemm) return;
  implement<&lookup<kind>>(m, host_lookup_name(name), c10::DispatchKey::CPU);
  implement<&lookup<kind>>(m, host_lookup_name(name), c10::DispatchKey::Meta);
  implement<&lookup_autograd<kind>>(m, host_lookup_name(name), c10::DispatchKey::AutogradCPU);
}

template <size_t... kinds>
void implement_optimizers(torch::Library& m, std::index_sequence<kinds...> /*each of kOptimizers*/) {
  (implement_optimizer<kinds>(m), ...);
}

template <size_t... kinds>
void join_optimizers(torch::Library& m, bool override_cpu, std::index_sequence<kinds...> /*each of kOptimizers*/) {
  (join_optimizer<kinds>(m, override_cpu), ...);
}

using EveryOptimizer = std::make_index_sequence<std::size(kOptimizers)>;

constexpr const char* kForwardName = "split_embedding_codegen_forward_unweighted_cuda";

}  // namespace

TORCH_LIBRARY_FRAGMENT(mxrec, m) {
  implement<&forward>(m, kForwardName, c10::DispatchKey::CompositeExplicitAutograd);
  implement_optimizers(m, EveryOptimizer());
}

TORCH_LIBRARY_FRAGMENT(fbgemm, m) {
  for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::PrivateUse1, c10::DispatchKey::Meta}) {
    implement<&forward>(m, kForwardName, key);
  }
  join_optimizers(m, override_enabled(), EveryOptimizer());
}

}  // namespace gr_ops::embedding
