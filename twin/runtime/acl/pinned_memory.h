// The map of host memory from aclrtMallocHost. Copies from and to it may be asynchronous.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace twin {

class PinnedMemory {
 public:
  static PinnedMemory& Get();

  void* Allocate(std::size_t bytes);
  bool Free(void* start);
  bool Holds(const void* address, std::size_t bytes);
  // Of the allocation that begins there; 0 when none does.
  std::size_t SizeOf(const void* start);

 private:
  PinnedMemory() = default;

  std::mutex mutex_;
  std::map<uintptr_t, std::size_t> sizes_;
};

}  // namespace twin
