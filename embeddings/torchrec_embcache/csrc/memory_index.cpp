#include "memory_index.h"

#include <algorithm>

namespace embcache {

// The first entry that is not smaller. The guess is off by about the square root of the count.
size_t MemoryIndex::lower_bound(const Partition& partition, uint64_t entry) {
  const size_t count = partition.size();
  const size_t guess = expected_place(entry, count);
  size_t low = guess;
  size_t high = guess;
  for (size_t step = 8; low > 0 && partition[low - 1] >= entry; step *= 2) low = low > step ? low - step : 0;
  for (size_t step = 8; high < count && partition[high] < entry; step *= 2) high = std::min(high + step, count);
  const auto begin = partition.begin();
  return static_cast<size_t>(
      std::lower_bound(begin + static_cast<std::ptrdiff_t>(low), begin + static_cast<std::ptrdiff_t>(high), entry) -
      begin);
}

void MemoryIndex::insert(uint64_t hash, uint32_t row) {
  Partition& partition = partitions_[partition_of(hash)];
  const uint64_t entry = entry_of(hash, row);
  const size_t at = lower_bound(partition, entry);
  // By a sixteenth: doubling would waste a third of the memory.
  if (partition.size() == partition.capacity()) {
    partition.reserve(partition.size() + std::max<size_t>(partition.size() / 16, 4));
  }
  partition.insert(partition.begin() + static_cast<std::ptrdiff_t>(at), entry);
  ++size_;
}

bool MemoryIndex::move(uint64_t hash, uint32_t row, uint32_t to) {
  Partition& partition = partitions_[partition_of(hash)];
  const uint64_t before = entry_of(hash, row);
  const uint64_t after = entry_of(hash, to);
  const size_t at = lower_bound(partition, before);
  if (at == partition.size() || partition[at] != before) return false;
  const bool in_order =
      (at == 0 || partition[at - 1] <= after) && (at + 1 == partition.size() || partition[at + 1] >= after);
  if (in_order) {
    partition[at] = after;
  } else {
    remove(hash, row);
    insert(hash, to);
  }
  return true;
}

bool MemoryIndex::remove(uint64_t hash, uint32_t row) {
  Partition& partition = partitions_[partition_of(hash)];
  const uint64_t entry = entry_of(hash, row);
  const size_t at = lower_bound(partition, entry);
  if (at == partition.size() || partition[at] != entry) return false;
  partition.erase(partition.begin() + static_cast<std::ptrdiff_t>(at));
  --size_;
  return true;
}

void MemoryIndex::drop(uint32_t begin, uint32_t end) {
  for (uint32_t k = begin; k < end; ++k) Partition().swap(partitions_[k]);
}

int64_t MemoryIndex::bytes() const {
  auto total = static_cast<int64_t>(sizeof(Partition) * partitions_.size());
  for (const Partition& partition : partitions_) total += static_cast<int64_t>(partition.capacity() * sizeof(uint64_t));
  return total;
}

}  // namespace embcache
