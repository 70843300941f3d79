// One call of an ATen operator in the strict mode of the streams. The operator runs on the host, after all streams;
// what it reads and writes counts as done by the current stream, as it would be on a device.
#pragma once
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include "twin/access.h"

namespace twin {

class StrictCall {
 public:
  // Before the arguments are converted.
  StrictCall(const c10::OperatorHandle& op, const c10::IValue* arguments);

  // The arguments are used now. Throws c10::Error when nothing orders this use and an earlier one.
  void Begin(c10::Device device);
  // The results are there, and what was resized has moved.
  void End(const c10::IValue* results);
  // The result went to the host.
  void GiveValue() const;

 private:
  struct Use {
    at::Tensor tensor;
    bool writes;
  };

  void Add(const c10::IValue& value, bool writes);
  void AddResult(Accesses& accesses, const at::Tensor& tensor) const;
  void Note(const Accesses& accesses) const;

  const c10::OperatorHandle& op_;
  const std::string name_;
  std::vector<Use> uses_;
  bool mask_ = false;  // an argument is a mask, whose true elements are counted
  c10::Device device_{c10::DeviceType::PrivateUse1, 0};
};

}  // namespace twin
