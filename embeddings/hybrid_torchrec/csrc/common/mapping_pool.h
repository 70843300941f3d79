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
  bool lent = false;  // the system may take pages of it that were not written since
};

// Mappings of arenas that are gone, for later ones: to take pages from the system, a fault and a clearing for each, and
// to give them back costs more than to fill an array with ids. As malloc does, it keeps no mapping of more than 32 MiB,
// and 64 MiB in all, with what arenas hold of mappings from here and have no use for yet; the oldest go first.
//
// What goes, in pieces of at least 2 MiB and up to 1 GiB in all, is lent to the system (MADV_FREE), which takes its
// pages when memory is short; till then who takes the mapping as it is, or clears it, has them without a fault. One
// who needs zeros without the time to clear them drops the pages first (Arena::Pages::kRenewed): each faults anew,
// which costs little while it was just freed. To give memory back at once costs more than that on a virtual machine,
// whose host takes what is free for a second or two: 2 ms for each huge page to have it again, against 0.1 ms for one
// that was just freed.
class MappingPool {
 public:
  static constexpr size_t kLargest = size_t{32} << 20;
  static constexpr size_t kMost = size_t{64} << 20;
  static constexpr size_t kMostLent = size_t{1} << 30;
  static constexpr size_t kLeastLent = size_t{2} << 20;  // of a mapping: the system has a limit of their number

  // The process's.
  static MappingPool& instance();

  ~MappingPool();

  // The one that was kept last of those of exactly so many addresses; else one without memory. Its bytes are any.
  Mapping take(size_t reserved);
  // Whoever took the mapping uses so many more of its bytes.
  void use(const Mapping& mapping, size_t bytes);
  // The mapping is not needed any more; so many of its bytes were in use.
  void give(Mapping mapping, size_t used);
  // Bytes that nobody uses: those that are kept, and those that are lent.
  size_t idle() const;
  size_t lent() const;

 private:
  using Place = std::deque<Mapping>::iterator;
  // Lends a kept mapping to the system, or gives it back where it is too small or too large for that.
  void retire(Place place);

  mutable std::mutex mutex_;
  std::deque<Mapping> kept_;  // the oldest first
  std::deque<Mapping> lent_mappings_;
  size_t idle_ = 0;
  size_t lent_bytes_ = 0;
};

}  // namespace hybrid_torchrec
