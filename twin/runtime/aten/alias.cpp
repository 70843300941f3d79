#include "alias.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/ScopeExit.h>

#include "twin/access.h"

namespace twin {
namespace {

bool IsNpu(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::DeviceType::PrivateUse1;
}

// The bytes stay alive through the reference to the NPU storage that the deleter holds.
c10::Storage CpuStorageOver(const c10::Storage& storage) {
  auto owner = std::make_unique<c10::Storage>(storage);
  c10::DataPtr data(
      storage.mutable_data(), owner.release(), [](void* held) { delete static_cast<c10::Storage*>(held); },
      c10::Device(c10::kCPU));
  return c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data), c10::GetCPUAllocator(),
                      /*resizable=*/true);
}

at::Tensor CpuTensorOver(const c10::Storage& storage, const at::Tensor& tensor) {
  auto cpu = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                      tensor.dtype());
  auto* impl = cpu.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  cpu._set_conj(tensor.is_conj());
  cpu._set_neg(tensor.is_neg());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return cpu;
}

bool SameGeometry(const at::Tensor& left, const at::Tensor& right) {
  return left.sizes() == right.sizes() && left.strides() == right.strides() &&
         left.storage_offset() == right.storage_offset();
}

}  // namespace

void SynchronizeDevice(c10::Device device) {
  static const c10::impl::VirtualGuardImpl guard(c10::DeviceType::PrivateUse1);
  // A device has its own order: the program has not waited.
  twinWaitsForItself(true);
  const auto restore = c10::make_scope_exit([] { twinWaitsForItself(false); });
  guard.synchronizeDevice(device.index());
}

at::Tensor AliasTable::ToCpu(const at::Tensor& tensor) {
  if (!IsNpu(tensor)) {
    return tensor;
  }
  // Two arguments that share a storage share the alias's storage too, so that one's resize is seen by the other.
  const c10::Storage* shared = nullptr;
  for (const Alias& alias : aliases_) {
    if (alias.npu.is_same(tensor)) {
      return alias.cpu;
    }
    if (alias.npu.storage().is_alias_of(tensor.storage())) {
      shared = &alias.cpu.storage();
    }
  }
  if (std::find(devices_.begin(), devices_.end(), tensor.device()) == devices_.end()) {
    devices_.push_back(tensor.device());
  }
  auto cpu = CpuTensorOver(shared ? *shared : CpuStorageOver(tensor.storage()), tensor);
  aliases_.push_back({tensor, cpu, tensor.storage().data()});
  return cpu;
}

void AliasTable::CommitArguments() const {
  for (const Alias& alias : aliases_) {
    if (alias.cpu.storage().data() != alias.data) {
      // Resizing keeps the storage object, so that views of it see the new memory as they do on the CPU.
      // It may be larger than the tensor: a solver's work area, or columns with a stride.
      alias.npu.resize_({static_cast<int64_t>(alias.cpu.storage().nbytes() / alias.cpu.itemsize())});
      SynchronizeDevice(alias.npu.device());
      const auto bytes = std::min(alias.cpu.storage().nbytes(), alias.npu.storage().nbytes());
      if (bytes > 0) {
        std::memcpy(alias.npu.storage().mutable_data(), alias.cpu.storage().data(), bytes);
      }
    }
    if (!SameGeometry(alias.cpu, alias.npu)) {
      alias.npu.unsafeGetTensorImpl()->set_sizes_and_strides(alias.cpu.sizes(), alias.cpu.strides(),
                                                             alias.cpu.storage_offset());
    }
  }
}

at::Tensor AliasTable::ToNpu(const at::Tensor& result, c10::Device device) const {
  if (!result.defined() || IsNpu(result)) {
    return result;
  }
  if (result.layout() != at::kStrided) {  // to_sparse: torch_npu copies the parts
    return result.to(device);
  }
  for (const Alias& alias : aliases_) {
    if (alias.cpu.is_same(result)) {
      return alias.npu;
    }
  }
  for (const Alias& alias : aliases_) {
    if (alias.cpu.storage().is_alias_of(result.storage())) {
      auto view = at::as_strided(alias.npu, result.sizes(), result.strides(), result.storage_offset());
      view._set_conj(result.is_conj());
      view._set_neg(result.is_neg());
      return view;
    }
  }
  if (result._is_zerotensor()) {  // a constant zero without memory, which autograd gives as a gradient
    return at::zeros(result.sizes(), result.options().device(device));
  }
  const auto source = result.resolve_conj().resolve_neg();
  const auto dense = source.is_non_overlapping_and_dense() ? source : source.contiguous();
  auto npu = at::empty_strided(dense.sizes(), dense.strides(), dense.options().device(device));
  if (dense.numel() > 0) {
    // The block may be one that another thread freed while its work still runs on the stream.
    SynchronizeDevice(device);
    std::memcpy(npu.mutable_data_ptr(), dense.const_data_ptr(), dense.nbytes());
  }
  return npu;
}

}  // namespace twin
