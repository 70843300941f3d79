#include "counted_call.h"

#include <algorithm>

#include "host_value.h"
#include "twin/counts.h"

namespace twin {
namespace {

// Nothing runs on a device to make a view.
bool IsView(const c10::OperatorHandle& op) {
  const auto& returns = op.schema().returns();
  return !returns.empty() && std::all_of(returns.begin(), returns.end(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  });
}

bool HasMask(const c10::IValue& value) {
  if (value.isTensor()) {
    return IsMask(value.toTensor());
  }
  if (!value.isTensorList() && !value.isOptionalTensorList()) {
    return false;
  }
  const auto members = value.toListRef();
  return std::any_of(members.begin(), members.end(), HasMask);
}

}  // namespace

void CountCall(const c10::OperatorHandle& op, const c10::IValue* arguments) {
  if (IsView(op)) {
    return;
  }
  const auto name = toString(op.operator_name());
  twinCountAten(name.c_str());
  const bool mask = std::any_of(arguments, arguments + op.schema().arguments().size(), HasMask);
  if (GivesHostValue(op, mask)) {
    twinCountValue(name.c_str());
  }
}

}  // namespace twin
