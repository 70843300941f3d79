#pragma once

#include <cstddef>

namespace hybrid_torchrec {

// Zeroed memory that grows in place: address space is reserved at first, and pages come as they are needed. Past the
// reservation the pages move, without being copied, to a larger one.
class Arena {
 public:
  // Of what has no known limit. A process has 2^47 bytes of addresses, and may have thousands of arenas.
  static constexpr size_t kUnlimited = size_t{1} << 33;

  explicit Arena(size_t reserve = kUnlimited);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  char* data() const { return data_; }
  size_t size() const { return size_; }

  // Makes at least `bytes` usable; throws std::bad_alloc if the system gives no more. data() changes only where the
  // reservation is outgrown.
  void grow(size_t bytes);
  // Takes the pages of bytes that will be written soon together, where the system can: one by one they cost more.
  void populate(size_t first, size_t last);

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
  size_t reserved_ = 0;
};

}  // namespace hybrid_torchrec
