#pragma once

#include <cstddef>
#include <cstdint>

namespace embcache {

// What the index knows of a row, in 8 bytes: 33 bits of its id's hash over a 31-bit row number. Entries lie in
// partitions by 16 further bits of the hash, and in order within each. So an entry says where the row of an id may be;
// two ids whose 49 bits are equal (at a billion ids, 2 in a million) are told apart by the id beside the row.
constexpr int kPartitionBits = 16;
constexpr int kTagBits = 33;
constexpr int kRowBits = 31;
constexpr uint32_t kPartitions = 1u << kPartitionBits;
constexpr uint32_t kMaxRows = 1u << kRowBits;

// A bijection of 64 bits without low-entropy outputs (finaliser of SplitMix64).
inline uint64_t hash_id(int64_t id) {
  auto x = static_cast<uint64_t>(id) + 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

inline uint32_t partition_of(uint64_t hash) { return static_cast<uint32_t>(hash >> (64 - kPartitionBits)); }

// The first entry of a hash in its partition; the last is this + kMaxRows - 1.
inline uint64_t first_entry(uint64_t hash) { return (hash << kPartitionBits) >> kRowBits << kRowBits; }

inline uint64_t entry_of(uint64_t hash, uint32_t row) { return first_entry(hash) | row; }

inline uint32_t row_of(uint64_t entry) { return static_cast<uint32_t>(entry & (kMaxRows - 1)); }

// Where an entry is expected among `count` uniform ones.
inline uint64_t expected_place(uint64_t entry, uint64_t count) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(entry) * count) >> 64);
}

}  // namespace embcache
