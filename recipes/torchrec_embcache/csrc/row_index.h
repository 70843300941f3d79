#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace embcache {

// Where the row of each id is, in 6 bytes an id: a partition by 16 bits of the id's hash, and in it entries of 17 more
// bits of the hash and a 31-bit row number, in the order of those bits. The hash is uniform, so an entry is found by
// interpolation. Two ids may share all 33 bits (at 100 million ids, 1.2 % of the absent ids meet such an entry): the
// caller compares the id that stands beside the row. Not synchronised.
class RowIndex {
 public:
  static constexpr int kPartitionBits = 16;
  static constexpr int kTagBits = 17;
  static constexpr int kRowBits = 31;
  static constexpr uint32_t kMaxRows = uint32_t{1} << kRowBits;

  RowIndex() : partitions_(size_t{1} << kPartitionBits) {}

  // Calls visit(row number) for each entry with this hash, until it returns true.
  template <typename Visit>
  bool any(uint64_t hash, const Visit& visit) const {
    const Partition& partition = partitions_[partition_of(hash)];
    const uint32_t tag = tag_of(hash);
    for (uint32_t k = lower_bound(partition, tag); k < partition.count; ++k) {
      const uint64_t entry = load(partition, k);
      if ((entry >> kRowBits) != tag) return false;
      if (visit(static_cast<uint32_t>(entry & (kMaxRows - 1)))) return true;
    }
    return false;
  }

  void insert(uint64_t hash, uint32_t row);
  // Makes the entry (hash, row) point to another row; false if there is no such entry.
  bool move(uint64_t hash, uint32_t row, uint32_t to);
  bool remove(uint64_t hash, uint32_t row);
  bool has(uint64_t hash, uint32_t row) const {
    return any(hash, [row](uint32_t other) { return other == row; });
  }

  int64_t size() const { return size_; }
  int64_t bytes() const;
  void clear();

  // Calls sink(bytes, size) with all of it, partition by partition: a 32-bit count, then 6 bytes an entry.
  template <typename Sink>
  void save(const Sink& sink) const {
    for (const Partition& partition : partitions_) {
      sink(&partition.count, sizeof partition.count);
      sink(partition.bytes.data(), kEntryBytes * partition.count);
    }
  }
  // The inverse: source(bytes, size) fills in as many bytes, or returns false. False if it did, or gave no index.
  template <typename Source>
  bool load(const Source& source) {
    clear();
    for (Partition& partition : partitions_) {
      uint32_t count = 0;
      if (!source(&count, sizeof count) || count > kMaxRows) return false;
      reserve(partition, count);
      if (!source(partition.bytes.data(), kEntryBytes * count)) return false;
      partition.count = count;
      size_ += count;
    }
    return true;
  }
  // Keeps the entries whose row number passes.
  template <typename Keep>
  void filter(const Keep& keep) {
    size_ = 0;
    for (Partition& partition : partitions_) {
      uint32_t kept = 0;
      for (uint32_t k = 0; k < partition.count; ++k) {
        const uint64_t entry = load(partition, k);
        if (keep(static_cast<uint32_t>(entry & (kMaxRows - 1)))) store(partition, kept++, entry);
      }
      partition.count = kept;
      size_ += kept;
    }
  }

 private:
  static constexpr size_t kEntryBytes = 6;
  static constexpr size_t kSlack = 2;  // load() reads 8 bytes

  struct Partition {
    std::vector<unsigned char> bytes;
    uint32_t count = 0;
  };

  static size_t partition_of(uint64_t hash) { return hash >> (64 - kPartitionBits); }
  static uint32_t tag_of(uint64_t hash) {
    return static_cast<uint32_t>(hash >> (64 - kPartitionBits - kTagBits)) & ((1u << kTagBits) - 1);
  }
  static uint64_t load(const Partition& partition, uint32_t k);
  static void store(Partition& partition, uint32_t k, uint64_t entry);
  static uint32_t lower_bound(const Partition& partition, uint32_t tag);
  static void reserve(Partition& partition, uint32_t count);

  std::vector<Partition> partitions_;
  int64_t size_ = 0;
};

// A bijection of 64 bits without low-entropy outputs (finaliser of SplitMix64).
inline uint64_t hash_id(int64_t id) {
  auto x = static_cast<uint64_t>(id) + 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace embcache
