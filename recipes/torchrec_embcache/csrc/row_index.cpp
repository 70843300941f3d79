#include "row_index.h"

#include <algorithm>
#include <cstring>

namespace embcache {

uint64_t RowIndex::load(const Partition& partition, uint32_t k) {
  uint64_t word;
  std::memcpy(&word, partition.bytes.data() + kEntryBytes * k, sizeof word);
  return word & ((uint64_t{1} << 48) - 1);
}

void RowIndex::store(Partition& partition, uint32_t k, uint64_t entry) {
  std::memcpy(partition.bytes.data() + kEntryBytes * k, &entry, kEntryBytes);
}

// The first entry with a tag that is not smaller. The guess is off by about the square root of the count.
uint32_t RowIndex::lower_bound(const Partition& partition, uint32_t tag) {
  const auto tag_at = [&](uint32_t k) { return static_cast<uint32_t>(load(partition, k) >> kRowBits); };
  auto k = static_cast<uint32_t>((uint64_t{tag} * partition.count) >> kTagBits);
  uint32_t step = 8;
  uint32_t low = k;
  while (low > 0 && tag_at(low - 1) >= tag) {
    low = low > step ? low - step : 0;
    step *= 2;
  }
  step = 8;
  uint32_t high = std::max(k, low);
  while (high < partition.count && tag_at(high) < tag) {
    high = std::min(high + step, partition.count);
    step *= 2;
  }
  while (low < high) {
    k = low + (high - low) / 2;
    if (tag_at(k) < tag) {
      low = k + 1;
    } else {
      high = k;
    }
  }
  return low;
}

void RowIndex::reserve(Partition& partition, uint32_t count) {
  const size_t needed = kEntryBytes * count + kSlack;
  if (partition.bytes.size() >= needed) return;
  // By a sixteenth: at 100 million ids, doubling would cost 600 MB.
  const size_t wanted = needed + std::max<size_t>(count / 16, 4) * kEntryBytes;
  std::vector<unsigned char> larger;
  larger.reserve(wanted);
  larger.assign(partition.bytes.begin(), partition.bytes.end());
  larger.resize(wanted);
  partition.bytes.swap(larger);
}

void RowIndex::insert(uint64_t hash, uint32_t row) {
  Partition& partition = partitions_[partition_of(hash)];
  const uint32_t tag = tag_of(hash);
  const uint32_t at = lower_bound(partition, tag);
  reserve(partition, partition.count + 1);
  unsigned char* bytes = partition.bytes.data();
  std::memmove(bytes + kEntryBytes * (at + 1), bytes + kEntryBytes * at, kEntryBytes * (partition.count - at));
  ++partition.count;
  store(partition, at, (uint64_t{tag} << kRowBits) | row);
  ++size_;
}

bool RowIndex::move(uint64_t hash, uint32_t row, uint32_t to) {
  Partition& partition = partitions_[partition_of(hash)];
  const uint64_t wanted = (uint64_t{tag_of(hash)} << kRowBits) | row;
  for (uint32_t k = lower_bound(partition, tag_of(hash)); k < partition.count; ++k) {
    const uint64_t entry = load(partition, k);
    if ((entry >> kRowBits) != tag_of(hash)) return false;
    if (entry == wanted) {
      store(partition, k, (uint64_t{tag_of(hash)} << kRowBits) | to);
      return true;
    }
  }
  return false;
}

bool RowIndex::remove(uint64_t hash, uint32_t row) {
  Partition& partition = partitions_[partition_of(hash)];
  const uint64_t wanted = (uint64_t{tag_of(hash)} << kRowBits) | row;
  for (uint32_t k = lower_bound(partition, tag_of(hash)); k < partition.count; ++k) {
    const uint64_t entry = load(partition, k);
    if ((entry >> kRowBits) != tag_of(hash)) return false;
    if (entry == wanted) {
      unsigned char* bytes = partition.bytes.data();
      --partition.count;
      std::memmove(bytes + kEntryBytes * k, bytes + kEntryBytes * (k + 1), kEntryBytes * (partition.count - k));
      --size_;
      return true;
    }
  }
  return false;
}

int64_t RowIndex::bytes() const {
  int64_t total = static_cast<int64_t>(sizeof(Partition) * partitions_.size());
  for (const Partition& partition : partitions_) total += static_cast<int64_t>(partition.bytes.capacity());
  return total;
}

void RowIndex::clear() {
  for (Partition& partition : partitions_) partition = Partition{};
  size_ = 0;
}

}  // namespace embcache
