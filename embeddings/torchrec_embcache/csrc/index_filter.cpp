#include "index_filter.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

namespace embcache {
namespace {

constexpr uint64_t kBitsPerEntry = 10;

// The 49 bits of the hash that an entry keeps, at the top.
uint64_t key_of(uint32_t partition, uint64_t entry) {
  return (uint64_t{partition} << (64 - kPartitionBits)) | (entry >> kRowBits << (64 - kPartitionBits - kTagBits));
}

}  // namespace

IndexFilter::IndexFilter(uint64_t entries)
    : blocks_(std::max<uint64_t>(1, (entries * kBitsPerEntry + kBlockBytes * 8 - 1) / (kBlockBytes * 8))) {
  // Pages of their own, so that drop_before can give them back.
  void* pages = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  words_ = static_cast<uint64_t*>(pages);
}

IndexFilter::~IndexFilter() { ::munmap(words_, bytes()); }

uint64_t* IndexFilter::block_of(uint64_t key) const { return words_ + expected_place(key, blocks_) * kBlockWords; }

void IndexFilter::add(uint32_t partition, uint64_t entry) {
  const uint64_t key = key_of(partition, entry);
  uint64_t* block = block_of(key);
  uint64_t bits = hash_id(static_cast<int64_t>(key));
  for (int k = 0; k < kProbes; ++k, bits >>= 9) {
    uint64_t* word = block + ((bits >> 6) & (kBlockWords - 1));
    __atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED) | uint64_t{1} << (bits & 63), __ATOMIC_RELAXED);
  }
}

bool IndexFilter::may_have(uint64_t hash) const {
  const uint64_t key = key_of(partition_of(hash), first_entry(hash));
  const uint64_t* block = block_of(key);
  uint64_t bits = hash_id(static_cast<int64_t>(key));
  for (int k = 0; k < kProbes; ++k, bits >>= 9) {
    const uint64_t word = __atomic_load_n(block + ((bits >> 6) & (kBlockWords - 1)), __ATOMIC_RELAXED);
    if ((word >> (bits & 63) & 1) == 0) return false;
  }
  return true;
}

void IndexFilter::drop_before(uint32_t partition) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t end =
      partition >= kPartitions ? bytes() : expected_place(key_of(partition, 0), blocks_) * kBlockBytes / page * page;
  if (end > 0) ::madvise(words_, end, MADV_DONTNEED);
}

}  // namespace embcache
