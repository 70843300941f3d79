// The map of device allocations. Device memory is host memory of this process that is accounted to a device.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace twin {

struct DeviceBlock {
  uintptr_t start;
  std::size_t size;  // as accounted
  int32_t device;
};

class DeviceMemory {
 public:
  static DeviceMemory& Get();

  // Null when the device's limit or the host's memory is exhausted.
  void* Allocate(int32_t device, std::size_t bytes);
  bool Free(void* start);

  // The block that holds the whole range. An empty range is held by the block that holds its address.
  std::optional<DeviceBlock> Find(const void* address, std::size_t bytes);
  // Whether any byte of the range belongs to a device.
  bool Overlaps(const void* address, std::size_t bytes);

  std::size_t Used(int32_t device);

 private:
  DeviceMemory();

  std::mutex mutex_;
  std::map<uintptr_t, DeviceBlock> blocks_;
  std::vector<std::size_t> used_;
};

}  // namespace twin
