// Random numbers of override operators: drawn by a CPU generator whose seed comes from the NPU generator's state.
#pragma once
#include <mutex>

#include <ATen/Tensor.h>
#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

namespace twin {

// Takes (seed, Philox offset) from `generator`, or from the device's default generator if it is undefined, advances the
// offset, and returns a fresh CPU generator seeded from both. Equal states give equal generators.
at::Generator TakeCpuGenerator(const at::Generator& generator, c10::Device device);

// For random operators without a generator argument (native_dropout): their CPU kernels draw from the CPU's default
// generator, which for the lifetime of this object continues from `source` and is restored afterwards.
class DefaultGeneratorOverride {
 public:
  explicit DefaultGeneratorOverride(const at::Generator& source);
  ~DefaultGeneratorOverride();
  DefaultGeneratorOverride(const DefaultGeneratorOverride&) = delete;
  DefaultGeneratorOverride& operator=(const DefaultGeneratorOverride&) = delete;

 private:
  std::unique_lock<std::mutex> oneAtATime_;
  at::Tensor saved_;
};

}  // namespace twin
