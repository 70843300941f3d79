#pragma once

#include <cstdint>
#include <vector>

#include "index_entry.h"

namespace embcache {

// Entries in memory, a sorted array a partition. Hashes are uniform, so a place is found by interpolation. Not
// synchronised.
class MemoryIndex {
 public:
  using Partition = std::vector<uint64_t>;

  MemoryIndex() : partitions_(kPartitions) {}

  // Calls visit(row) for each entry of the hash.
  template <typename Visit>
  void find(uint64_t hash, const Visit& visit) const {
    const Partition& partition = partitions_[partition_of(hash)];
    const uint64_t first = first_entry(hash);
    for (size_t k = lower_bound(partition, first); k < partition.size() && partition[k] - first < kMaxRows; ++k) {
      visit(row_of(partition[k]));
    }
  }

  // Where the entries of a hash are is on its way from memory; first prefetch_partition(), some time later prefetch().
  void prefetch_partition(uint64_t hash) const { __builtin_prefetch(&partitions_[partition_of(hash)]); }
  void prefetch(uint64_t hash) const {
    const Partition& partition = partitions_[partition_of(hash)];
    __builtin_prefetch(partition.data() + expected_place(first_entry(hash), partition.size()));
  }

  void insert(uint64_t hash, uint32_t row);
  // Makes the entry (hash, row) point to another row; false if there is no such entry.
  bool move(uint64_t hash, uint32_t row, uint32_t to);
  bool remove(uint64_t hash, uint32_t row);

  const Partition& partition(uint32_t number) const { return partitions_[number]; }
  // Gives back the memory of these partitions, [begin, end).
  void drop(uint32_t begin, uint32_t end);

  int64_t size() const { return size_; }
  int64_t bytes() const;

  // Calls sink(bytes, size) with all of it, partition by partition: a 32-bit count, then the entries.
  template <typename Sink>
  void save(const Sink& sink) const {
    for (const Partition& partition : partitions_) {
      const auto count = static_cast<uint32_t>(partition.size());
      sink(&count, sizeof count);
      sink(partition.data(), count * sizeof(uint64_t));
    }
  }
  // The inverse: source(bytes, size) fills in as many bytes, or returns false. False if it did, or gave no index.
  template <typename Source>
  bool load(const Source& source) {
    for (Partition& partition : partitions_) {
      uint32_t count = 0;
      if (!source(&count, sizeof count) || count >= kMaxRows) return false;
      partition.resize(count);
      if (!source(partition.data(), count * sizeof(uint64_t))) return false;
      size_ += count;
    }
    return true;
  }

 private:
  static size_t lower_bound(const Partition& partition, uint64_t entry);

  std::vector<Partition> partitions_;
  int64_t size_ = 0;
};

}  // namespace embcache
