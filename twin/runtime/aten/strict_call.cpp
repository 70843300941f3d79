#include "strict_call.h"

#include <algorithm>

#include <c10/core/DeviceGuard.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>

#include "host_value.h"

namespace twin {
namespace {

bool OnDevice(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::DeviceType::PrivateUse1 &&
         tensor.layout() == at::kStrided && tensor.has_storage() && !tensor._is_zerotensor();
}

void AddTensor(Accesses& accesses, const at::Tensor& tensor, bool writes) {
  const auto* storage = static_cast<const char*>(tensor.storage().data());
  if (storage != nullptr) {
    const auto* first = storage + tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
    accesses.AddView(first, tensor.sizes(), tensor.strides(), tensor.itemsize(), writes);
  }
}

aclrtStream CurrentStream(c10::Device device) { return c10_npu::getCurrentNPUStream(device.index()).stream(false); }

}  // namespace

StrictCall::StrictCall(const c10::OperatorHandle& op, const c10::IValue* arguments)
    : op_(op), name_(toString(op.operator_name())) {
  const auto& schema = op.schema();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    Add(arguments[i], alias != nullptr && alias->isWrite());
  }
}

void StrictCall::Add(const c10::IValue& value, bool writes) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (OnDevice(tensor)) {
      uses_.push_back({tensor, writes});
      mask_ = mask_ || IsMask(tensor);
    }
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& member : value.toListRef()) {
      Add(member, writes);
    }
  }
}

void StrictCall::Begin(c10::Device device) {
  device_ = device;
  Accesses accesses;
  for (const Use& use : uses_) {
    AddTensor(accesses, use.tensor, use.writes);
  }
  Note(accesses);
}

void StrictCall::End(const c10::IValue* results) {
  Accesses accesses;
  for (const Use& use : uses_) {
    if (use.writes) {
      AddTensor(accesses, use.tensor, true);
    }
  }
  for (size_t i = 0; i < op_.schema().returns().size(); ++i) {
    if (results[i].isTensor()) {
      AddResult(accesses, results[i].toTensor());
    } else if (results[i].isTensorList()) {
      for (const at::Tensor& tensor : results[i].toTensorVector()) {
        AddResult(accesses, tensor);
      }
    }
  }
  Note(accesses);
  if (GivesHostValue(op_, mask_)) {
    GiveValue();
  }
}

// A view of an argument is not written by making it.
void StrictCall::AddResult(Accesses& accesses, const at::Tensor& tensor) const {
  const auto isOf = [&tensor](const Use& use) { return use.tensor.storage().is_alias_of(tensor.storage()); };
  if (OnDevice(tensor) && std::none_of(uses_.begin(), uses_.end(), isOf)) {
    AddTensor(accesses, tensor, true);
  }
}

void StrictCall::GiveValue() const {
  const c10::DeviceGuard guard(device_);
  TORCH_CHECK(twinStreamGaveValue(CurrentStream(device_)) == ACL_SUCCESS, aclGetRecentErrMsg());
}

void StrictCall::Note(const Accesses& accesses) const {
  const c10::DeviceGuard guard(device_);
  const aclError error = twinStreamAccess(CurrentStream(device_), name_.c_str(), accesses.Data(), accesses.Size());
  TORCH_CHECK(error == ACL_SUCCESS, aclGetRecentErrMsg());
}

}  // namespace twin
