#include "random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <torch_npu/csrc/aten/NPUGeneratorImpl.h>

#include "twin/seed.h"

namespace twin {
namespace {

// The Philox offset counts 32-bit words and must stay a multiple of four.
constexpr uint64_t OFFSET_STEP = 4;

std::mutex& DefaultGeneratorMutex() {
  static auto* mutex = new std::mutex;  // never destroyed: other threads may outlive static destruction
  return *mutex;
}

}  // namespace

at::Generator TakeCpuGenerator(const at::Generator& generator, c10::Device device) {
  at::Generator source = generator.defined() ? generator : at_npu::detail::getDefaultNPUGenerator(device.index());
  TORCH_CHECK(source.device().type() == device.type(), "Expected a generator of device type '",
              c10::DeviceTypeName(device.type(), true), "' but found '", source.device(), "'");
  uint64_t seed = 0;
  uint64_t offset = 0;
  {
    const std::lock_guard<std::mutex> lock(source.mutex());
    seed = source.current_seed();
    offset = source.get_offset();
    source.set_offset(offset + OFFSET_STEP);
  }
  return at::detail::createCPUGenerator(CpuSeed(seed, offset));
}

DefaultGeneratorOverride::DefaultGeneratorOverride(const at::Generator& source) : oneAtATime_(DefaultGeneratorMutex()) {
  auto cpu = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(cpu.mutex());
  saved_ = cpu.get_state();
  cpu.set_state(source.get_state());
}

DefaultGeneratorOverride::~DefaultGeneratorOverride() {
  auto cpu = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(cpu.mutex());
  cpu.set_state(saved_);
}

}  // namespace twin
