// Pinned host memory in the strict mode: while a stream may still read or write it, the program's own reads and writes
// are found through page protection. The memory is mapped twice: as the program knows it, and as the streams use it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "access_history.h"
#include "twin/access.h"

namespace twin {

class PinnedGuard {
 public:
  static PinnedGuard& Get();

  // Null when the host's memory is exhausted. The address is the program's.
  void* Allocate(std::size_t bytes);
  void Free(void* start);
  // The address by which the runtime reaches those bytes; any other address as it is.
  void* Open(const void* address);

  // A stream uses the bytes from now on, until a host that knows of `point` has waited for it.
  void Begin(const twinAccess& access, const Point& point, const std::string& label);
  void End(const VectorClock& host);
  // The first touch that was not taken yet.
  std::optional<std::string> TakeFault();

 private:
  struct Mapping {
    std::size_t bytes;
    unsigned char* runtime;
  };

  PinnedGuard() = default;

  void Watch();
  void Protect(uintptr_t begin, uintptr_t end);

  std::mutex mutex_;
  std::map<uintptr_t, Mapping> mappings_;
  bool watching_ = false;
};

}  // namespace twin
