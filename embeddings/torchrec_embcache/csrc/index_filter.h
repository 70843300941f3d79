#pragma once

#include <cstddef>
#include <cstdint>

#include "index_entry.h"

namespace embcache {

// Which hashes an index file may have: a Bloom filter of blocks of a cache line, ten bits an entry, so about one absent
// hash in a hundred passes. Blocks are in the order of the hashes, so that a filter is built from its beginning to its
// end, and can be given back likewise. One thread may add while others ask for partitions that are finished.
class IndexFilter {
 public:
  // Room for so many entries.
  explicit IndexFilter(uint64_t entries);
  ~IndexFilter();
  IndexFilter(const IndexFilter&) = delete;
  IndexFilter& operator=(const IndexFilter&) = delete;

  void add(uint32_t partition, uint64_t entry);
  bool may_have(uint64_t hash) const;
  // Gives back the memory of all partitions before this one.
  void drop_before(uint32_t partition);

  void* data() { return words_; }
  const void* data() const { return words_; }
  size_t bytes() const { return blocks_ * kBlockBytes; }

 private:
  static constexpr size_t kBlockBytes = 64;
  static constexpr size_t kBlockWords = kBlockBytes / sizeof(uint64_t);
  static constexpr int kProbes = 6;

  uint64_t* block_of(uint64_t key) const;

  uint64_t blocks_;
  uint64_t* words_;
};

}  // namespace embcache
