#include "device_memory.h"

#include <sys/mman.h>

#include <cstdlib>

#include "counts.h"
#include "device.h"
#include "process.h"
#include "settings.h"
#include "twin/stream.h"

namespace twin {
namespace {

constexpr std::size_t kAlignment = 512;
constexpr std::size_t kBlock = 32;  // kernels read whole blocks, so one more block stays readable behind the end

std::size_t RoundUp(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// An idle device's memory is never touched: addresses alone, however many.
bool IsTouched() { return GetSettings().computes; }

void* Take(std::size_t bytes) {
  if (IsTouched()) {
    return std::aligned_alloc(kAlignment, bytes);
  }
  void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return start == MAP_FAILED ? nullptr : start;
}

void GiveBack(void* start, std::size_t bytes) {
  if (IsTouched()) {
    std::free(start);
  } else {
    munmap(start, bytes);
  }
}

// Of the host's memory, for a block of so many bytes.
std::size_t Taken(std::size_t size) { return RoundUp(size + kBlock, kAlignment); }

void CountMemory(int32_t device, std::size_t used) {
  if (Counting()) {
    Counts::Get().SetMemory(device, used);
  }
}

}  // namespace

DeviceMemory::DeviceMemory() : used_(static_cast<std::size_t>(DeviceCount()), 0) {}

// Never destroyed: tensors may be freed by other threads while the process exits.
DeviceMemory& DeviceMemory::Get() {
  static DeviceMemory& memory = *new DeviceMemory;
  return memory;
}

void* DeviceMemory::Allocate(int32_t device, std::size_t bytes) {
  MarkRuntimeInUse();
  const std::size_t limit = GetSettings().memoryPerDevice;
  if (bytes > limit) {
    return nullptr;
  }
  const std::size_t size = RoundUp(bytes, kBlock);
  const std::lock_guard lock(mutex_);
  auto& used = used_[static_cast<std::size_t>(device)];
  if (size > limit - used) {
    return nullptr;
  }
  void* start = Take(Taken(size));
  if (start == nullptr) {
    return nullptr;
  }
  used += size;
  const auto key = reinterpret_cast<uintptr_t>(start);
  blocks_[key] = {key, size, device};
  CountMemory(device, used);
  return start;
}

bool DeviceMemory::Free(void* start) {
  std::size_t size = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(reinterpret_cast<uintptr_t>(start));
    if (found == blocks_.end()) {
      return false;
    }
    size = found->second.size;
    auto& used = used_[static_cast<std::size_t>(found->second.device)];
    used -= size;
    CountMemory(found->second.device, used);
    blocks_.erase(found);
  }
  GiveBack(start, Taken(size));
  return true;
}

std::optional<DeviceBlock> DeviceMemory::Find(const void* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  auto after = blocks_.upper_bound(begin);
  if (after == blocks_.begin()) {
    return std::nullopt;
  }
  const DeviceBlock& block = std::prev(after)->second;
  const uintptr_t offset = begin - block.start;
  if (offset > block.size || bytes > block.size - offset) {
    return std::nullopt;
  }
  return block;
}

bool DeviceMemory::Overlaps(const void* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  auto after = blocks_.lower_bound(begin + bytes);
  if (after == blocks_.begin()) {
    return false;
  }
  const DeviceBlock& block = std::prev(after)->second;
  return block.start + block.size > begin;
}

std::size_t DeviceMemory::Used(int32_t device) {
  const std::lock_guard lock(mutex_);
  return used_[static_cast<std::size_t>(device)];
}

}  // namespace twin

extern "C" __attribute__((visibility("default"))) bool twinDeviceAllocation(const void* address, std::size_t bytes,
                                                                            const void** start, std::size_t* size) {
  if (twin::IsForkedChild()) {
    return false;
  }
  const auto block = twin::DeviceMemory::Get().Find(address, bytes);
  if (!block) {
    return false;
  }
  *start = reinterpret_cast<const void*>(block->start);
  *size = block->size;
  return true;
}
