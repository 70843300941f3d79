#include "embedding/call.h"

#include <c10/util/Exception.h>

#include <mutex>

#include "common/settings.h"

namespace gr_ops::embedding {
namespace {

constexpr int64_t kDevice = 0;
constexpr int64_t kManaged = 1;
constexpr int64_t kHost = 3;

// False for meta tensors and for those that the compiler traces with.
bool has_values(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet traced({c10::DispatchKey::Python, c10::DispatchKey::Functionalize});
  return !tensor.is_meta() && !tensor.key_set().has_any(traced);
}

void check_placements(const Call& call) {
  const at::Tensor placements = call.tensor("weights_placements");
  if (!has_values(placements) || (!placements.is_cpu() && !value_checks_enabled())) return;
  const at::Tensor host = placements.to(at::kCPU, at::kLong).contiguous();
  for (int64_t t = 0; t < host.numel(); ++t) {
    const int64_t placement = host.const_data_ptr<int64_t>()[t];
    TORCH_CHECK(placement == kDevice || placement == kManaged || placement == kHost, call.op_name(),
                ": weights_placements[", t, "] is not supported; expected 0 (DEVICE), 1 (MANAGED) or 3 (HOST), got ",
                placement);
  }
}

void refuse(const Call& call, bool given, const char* argument, const char* why) {
  TORCH_CHECK(!given, call.op_name(), ": ", argument, " is not supported; expected ", why);
}

}  // namespace

const Call::Layout& Call::layout_of(const c10::FunctionSchema& schema) {
  static std::mutex mutex;
  static std::unordered_map<const c10::FunctionSchema*, Layout> layouts;
  const std::lock_guard<std::mutex> lock(mutex);
  Layout& layout = layouts[&schema];
  if (layout.positions.empty()) {
    layout.op_name = schema.name().substr(schema.name().find("::") + 2);
    for (size_t i = 0; i < schema.arguments().size(); ++i) layout.positions[schema.arguments()[i].name()] = i;
  }
  return layout;
}

Call::Call(const c10::OperatorHandle& op, const torch::jit::Stack& stack)
    : layout_(layout_of(op.schema())), first_(&stack[stack.size() - op.schema().arguments().size()]) {}

const std::string& Call::op_name() const { return layout_.op_name; }

const c10::IValue* Call::find(const char* name) const {
  const auto position = layout_.positions.find(name);
  if (position == layout_.positions.end() || first_[position->second].isNone()) return nullptr;
  return first_ + position->second;
}

at::Tensor Call::tensor(const char* name) const {
  const c10::IValue* value = find(name);
  TORCH_CHECK(value != nullptr && value->toTensor().defined(), op_name(), ": ", name,
              " is missing; expected a tensor, got None");
  return value->toTensor();
}

std::optional<at::Tensor> Call::optional_tensor(const char* name) const {
  const c10::IValue* value = find(name);
  if (value == nullptr || !value->toTensor().defined()) return std::nullopt;
  return value->toTensor();
}

c10::SymInt Call::size(const char* name) const {
  const c10::IValue* value = find(name);
  TORCH_CHECK(value != nullptr, op_name(), ": ", name, " is missing");
  return value->toSymInt();
}

int64_t Call::integer(const char* name, int64_t absent) const {
  const c10::IValue* value = find(name);
  if (value == nullptr) return absent;
  // fbgemm's row-wise schema declares the default of an int as 0.0
  return value->isDouble() ? static_cast<int64_t>(value->toDouble()) : value->toInt();
}

double Call::number(const char* name, double absent) const {
  const c10::IValue* value = find(name);
  return value == nullptr ? absent : value->toScalar().toDouble();
}

bool Call::flag(const char* name) const {
  const c10::IValue* value = find(name);
  return value != nullptr && value->toBool();
}

Lookup lookup_of(const Call& call) {
  Lookup lookup;
  lookup.weights = call.tensor(call.has("host_weights") ? "host_weights" : "dev_weights");
  lookup.weights_offsets = call.tensor("weights_offsets");
  lookup.d_offsets = call.tensor("D_offsets");
  if (call.has("total_D")) lookup.total_d = call.size("total_D");
  lookup.max_d = call.size("max_D");
  lookup.hash_size_cumsum = call.optional_tensor("hash_size_cumsum");
  lookup.total_hash_size_bits = call.integer("total_hash_size_bits", 0);
  lookup.indices = call.tensor("indices");
  lookup.offsets = call.tensor("offsets");
  lookup.pooling = call.integer("pooling_mode", kSum);
  lookup.indice_weights = call.optional_tensor("indice_weights");
  lookup.output_dtype = call.integer("output_dtype", 0);
  return lookup;
}

Optimizer optimizer_of(const Call& call, const OptimizerTraits& kind) {
  Optimizer optimizer;
  optimizer.kind = &kind;
  const bool host = call.has("host_weights");
  if (optimizer.has_momentum1()) {
    optimizer.momentum1 = call.tensor(host ? "momentum1_host" : "momentum1_dev");
    optimizer.momentum1_offsets = call.tensor("momentum1_offsets");
  }
  if (optimizer.has_momentum2()) {
    optimizer.momentum2 = call.tensor(host ? "momentum2_host" : "momentum2_dev");
    optimizer.momentum2_offsets = call.tensor("momentum2_offsets");
  }
  const auto rate = call.optional_tensor("learning_rate_tensor");
  TORCH_CHECK(!rate || rate->numel() == 1, call.op_name(),
              ": learning_rate_tensor has the wrong size; expected 1 element, got ", rate->numel());
  if (!rate) {
    optimizer.learning_rate = call.number("learning_rate", 0);
  } else if (has_values(*rate) && has_values(call.tensor("dev_weights"))) {
    optimizer.learning_rate = rate->item().toDouble();
  }
  optimizer.eps = call.number("eps", 0);
  optimizer.beta1 = call.number("beta1", 0);
  optimizer.beta2 = call.number("beta2", 0);
  optimizer.weight_decay = call.number("weight_decay", 0);
  optimizer.weight_decay_mode = call.integer("weight_decay_mode", 0);
  optimizer.max_norm = call.number("max_norm", 0);
  optimizer.iter = call.integer("iter", 0);
  return optimizer;
}

UpdateOptions update_options_of(const Call& call) {
  UpdateOptions options;
  if (call.flag("gradient_clipping")) options.max_gradient = call.number("max_gradient", 0);
  options.stochastic_rounding = call.flag("stochastic_rounding");
  return options;
}

void check_supported(const Call& call) {
  refuse(call, call.has("B_offsets"), "B_offsets (a batch size per feature)", "None");
  refuse(call, call.flag("apply_global_weight_decay"), "apply_global_weight_decay", "False");
  refuse(call, call.flag("use_rowwise_bias_correction"), "use_rowwise_bias_correction", "False");
  refuse(call, call.flag("is_dynamic"), "is_dynamic", "False");
  check_placements(call);
}

}  // namespace gr_ops::embedding
