// CPU tensors over the memory of NPU tensors, for the duration of one call, and the way back.
#pragma once
#include <vector>

#include <ATen/Tensor.h>

namespace twin {

class AliasTable {
 public:
  // The CPU tensor over `tensor`'s storage: same geometry, conjugate, negative and wrapped-number flags. The same
  // tensor gives the same alias. Tensors of other devices come back as they are.
  at::Tensor ToCpu(const at::Tensor& tensor);

  // Gives arguments that the CPU kernel resized or reshaped their new geometry, and their new contents.
  void CommitArguments() const;

  // The NPU tensor for a result: an alias's own tensor, a view of it, or a copy on `device`.
  at::Tensor ToNpu(const at::Tensor& result, c10::Device device) const;

  const std::vector<c10::Device>& Devices() const { return devices_; }

 private:
  struct Alias {
    at::Tensor npu;
    at::Tensor cpu;
    const void* data;  // of the storage, when the alias was made
  };

  std::vector<Alias> aliases_;
  std::vector<c10::Device> devices_;
};

// Waits for torch_npu's task queue and for all streams of the device; raises what failed there.
void SynchronizeDevice(c10::Device device);

}  // namespace twin
