// Legacy operators (aclop) that torch_npu still calls where it has no aclnn function, computed with PyTorch. Inputs and
// outputs are by place, as torch_npu's call has them; shapes are PyTorch's, also of private formats.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "twin/legacy.h"

namespace twin::opapi {

struct LegacyOperand {
  bool absent = true;
  at::ScalarType type = at::kFloat;
  aclFormat format = ACL_FORMAT_UNDEFINED;
  std::vector<int64_t> shape;
  std::vector<int64_t> stored;  // in memory, of a private format (format.h)
  void* address = nullptr;
  at::Tensor onHost;  // what was read when the call was planned

  at::Tensor Read() const;  // with a private format unpacked
  void Write(const at::Tensor& result) const;
};

class LegacyArguments {
 public:
  LegacyArguments(const LegacyCall& call, const std::vector<const char*>& attributes);

  size_t Inputs() const { return inputs_.size(); }
  bool Has(size_t input) const { return input < inputs_.size() && !inputs_[input].absent; }
  at::Tensor In(size_t input) const;
  std::optional<at::Tensor> OptionalIn(size_t input) const;
  // In float where the input is of half precision.
  at::Tensor WideIn(size_t input) const;
  const LegacyOperand& InOperand(size_t input) const { return inputs_.at(input); }
  const LegacyOperand& OutOperand(size_t output) const { return outputs_.at(output); }
  const std::vector<int64_t>& OutShape(size_t output) const { return outputs_.at(output).shape; }
  // Checks the shape, converts the type, packs a private format.
  void Out(size_t output, const at::Tensor& result) const { outputs_.at(output).Write(result); }

  std::vector<int64_t> Integers(const std::string& name) const;
  double Number(const std::string& name, double otherwise) const;
  std::string Text(const std::string& name, const std::string& otherwise) const;

 private:
  std::vector<LegacyOperand> inputs_, outputs_;
  std::map<std::string, std::vector<int64_t>> integers_;
  std::map<std::string, double> numbers_;
  std::map<std::string, std::string> texts_;
};

// One line where an operator is defined: LegacyOperator("Mul", {}, [](const LegacyArguments& call) { ... }).
class LegacyOperator {
 public:
  using Computation = void (*)(const LegacyArguments&);
  LegacyOperator(const char* name, std::vector<const char*> attributes, Computation computation);

  const char* name;
  std::vector<const char*> attributes;
  Computation computation;
};

}  // namespace twin::opapi
