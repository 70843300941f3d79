#pragma once

#include <cstddef>
#include <deque>
#include <mutex>

namespace hybrid_torchrec {

// Reserved addresses, of which the first `usable` bytes may be read and written, and the first `populated` of these
// have their pages for sure.
struct Mapping {
  char* data = nullptr;
  size_t reserved = 0;
  size_t usable = 0;
  size_t populated = 0;
};

// Mappings of arenas that are gone, for later ones: to take pages from the system, a fault and a clearing for each, and
// to give them back costs more than to fill an array with ids. As malloc does, it keeps no mapping of more than 32 MiB,
// and 64 MiB in all, with what arenas hold of mappings from here and have no use for yet; the oldest go first.
class MappingPool {
 public:
  static constexpr size_t kLargest = size_t{32} << 20;
  static constexpr size_t kMost = size_t{64} << 20;

  // The process's.
  static MappingPool& instance();

  ~MappingPool();

  // The one that was kept last of those of exactly so many addresses; else one without memory. Its bytes are any.
  Mapping take(size_t reserved);
  // Whoever took a mapping uses so many more of its bytes.
  void use(size_t bytes);
  // The mapping is not needed any more; so many of its bytes were in use.
  void give(const Mapping& mapping, size_t used);
  // Bytes that nobody uses.
  size_t idle() const;

 private:
  mutable std::mutex mutex_;
  std::deque<Mapping> kept_;  // the oldest first
  size_t idle_ = 0;
};

}  // namespace hybrid_torchrec
