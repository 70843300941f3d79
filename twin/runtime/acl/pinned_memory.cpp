#include "pinned_memory.h"

#include <cstdlib>
#include <iterator>
#include <limits>

#include "pinned_guard.h"
#include "process.h"
#include "stream_order.h"

namespace twin {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

// Never destroyed: see DeviceMemory.
PinnedMemory& PinnedMemory::Get() {
  static PinnedMemory& memory = *new PinnedMemory;
  return memory;
}

void* PinnedMemory::Allocate(std::size_t bytes) {
  MarkRuntimeInUse();
  if (bytes > std::numeric_limits<std::size_t>::max() - kPage) {
    return nullptr;
  }
  void* start =
      Strict() ? PinnedGuard::Get().Allocate(bytes) : std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (start != nullptr) {
    const std::lock_guard lock(mutex_);
    sizes_[reinterpret_cast<uintptr_t>(start)] = bytes;
  }
  return start;
}

bool PinnedMemory::Free(void* start) {
  {
    const std::lock_guard lock(mutex_);
    if (sizes_.erase(reinterpret_cast<uintptr_t>(start)) == 0) {
      return false;
    }
  }
  if (Strict()) {
    PinnedGuard::Get().Free(start);
  } else {
    std::free(start);
  }
  return true;
}

std::size_t PinnedMemory::SizeOf(const void* start) {
  const std::lock_guard lock(mutex_);
  const auto found = sizes_.find(reinterpret_cast<uintptr_t>(start));
  return found == sizes_.end() ? 0 : found->second;
}

bool PinnedMemory::Holds(const void* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  auto after = sizes_.upper_bound(begin);
  if (after == sizes_.begin()) {
    return false;
  }
  const auto& [start, size] = *std::prev(after);
  const uintptr_t offset = begin - start;
  return offset <= size && bytes <= size - offset;
}

}  // namespace twin
