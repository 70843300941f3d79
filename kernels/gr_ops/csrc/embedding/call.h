#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "embedding/lookup.h"

namespace gr_ops::embedding {

// The arguments of one boxed call, by name: fbgemm's entry points have up to 50, in an order of their own each.
class Call {
 public:
  Call(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

  const std::string& op_name() const;
  bool has(const char* name) const { return find(name) != nullptr; }
  at::Tensor tensor(const char* name) const;
  std::optional<at::Tensor> optional_tensor(const char* name) const;
  c10::SymInt size(const char* name) const;
  int64_t integer(const char* name, int64_t absent) const;
  double number(const char* name, double absent) const;
  bool flag(const char* name) const;

 private:
  struct Layout {
    std::string op_name;
    std::unordered_map<std::string_view, size_t> positions;  // of names that the schema owns
  };
  static const Layout& layout_of(const c10::FunctionSchema& schema);
  const c10::IValue* find(const char* name) const;  // nullptr: no such argument, or None

  const Layout& layout_;
  const c10::IValue* first_;
};

Lookup lookup_of(const Call& call);
Optimizer optimizer_of(const Call& call, const OptimizerTraits& kind);

// As the call says, without what concerns the gradient of indice_weights.
UpdateOptions update_options_of(const Call& call);

// Raises for what is set and not supported.
void check_supported(const Call& call);

}  // namespace gr_ops::embedding
