#pragma once

#include <cstddef>

#include "common/mapping_pool.h"

namespace hybrid_torchrec {

// Memory that grows in place: address space is reserved at first, and pages come as they are needed. Past the
// reservation the pages move, without being copied, to a larger one.
class Arena {
 public:
  // Of what has no known limit. A process has 2^47 bytes of addresses, and may have thousands of arenas.
  static constexpr size_t kUnlimited = size_t{1} << 33;

  // Where pages come from, and what is in them.
  enum class Pages {
    kFresh,    // from the system, which clears each when it is first touched: growth itself takes no time
    kRenewed,  // the same, in a mapping of the pool if it has one whose pages can be dropped in a few milliseconds
    kCleared,  // from the pool of mappings, if it has some, then cleared by grow(), else as kFresh
    kAny,      // the same, uncleared
  };

  explicit Arena(size_t reserve = kUnlimited, Pages pages = Pages::kFresh);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  char* data() const { return mapping_.data; }
  size_t size() const { return size_; }

  // Makes at least `bytes` usable; throws std::bad_alloc if the system gives no more. data() changes only where the
  // reservation is outgrown.
  void grow(size_t bytes);
  // Takes the pages of bytes that will be written soon together, where the system can: one by one they cost more.
  void populate(size_t first, size_t last);

 private:
  // Drops the pages of the mapping, so that all are zero; false if it may not, or has no time for all of them.
  bool renew();
  void extend(size_t bytes);

  Pages pages_;
  Mapping mapping_;
  size_t size_ = 0;  // what is usable beyond it is the pool's still
};

}  // namespace hybrid_torchrec
