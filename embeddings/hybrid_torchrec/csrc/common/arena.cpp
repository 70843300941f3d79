#include "common/arena.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace hybrid_torchrec {
namespace {

constexpr size_t kPage = size_t{1} << 12;
constexpr size_t kHugePage = size_t{1} << 21;
constexpr size_t kSmallest = size_t{1} << 20;
// To drop pages takes 2.5 ms a GiB where they are huge, but 80 ms where they are of 4 KiB.
constexpr size_t kDroppedTogether = size_t{8} << 20;
constexpr double kRenewal = 4e-3;  // seconds

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Of this thread.
double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Mapping reserve_addresses(size_t wanted) {
  // A limit of the process may refuse much address space: then less has to do.
  for (size_t bytes = wanted; bytes >= kSmallest; bytes /= 2) {
    void* place = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place != MAP_FAILED) return {static_cast<char*>(place), bytes, 0, 0};
  }
  throw std::bad_alloc();
}

}  // namespace

Arena::Arena(size_t reserve, Pages pages) : pages_(pages) {
  reserve = round_up(std::max(reserve, kPage), kHugePage);
  if (pages_ != Pages::kFresh) mapping_ = MappingPool::instance().take(reserve);
  if (pages_ == Pages::kRenewed && mapping_.data != nullptr && !renew()) {
    MappingPool::instance().give(mapping_, 0);
    mapping_ = {};
  }
  if (mapping_.data == nullptr) mapping_ = reserve_addresses(reserve);
}

Arena::~Arena() {
  if (pages_ == Pages::kFresh) {
    munmap(mapping_.data, mapping_.reserved);
  } else {
    MappingPool::instance().give(mapping_, size_);
  }
}

bool Arena::renew() {
  mapping_.populated = 0;
  const double start = processor_seconds();
  for (size_t first = 0; first < mapping_.usable; first += kDroppedTogether) {
    if (processor_seconds() - start > kRenewal) return false;
    const size_t bytes = std::min(kDroppedTogether, mapping_.usable - first);
    if (madvise(data() + first, bytes, MADV_DONTNEED) != 0) return false;  // locked pages
  }
  return true;
}

void Arena::grow(size_t bytes) {
  if (bytes <= size_) return;
  bytes = round_up(bytes, kPage);
  const size_t there = std::min(bytes, mapping_.usable);
  if (there > size_) {  // of the pool's
    MappingPool::instance().use(mapping_, there - size_);
    if (pages_ == Pages::kCleared) {
      std::memset(data() + size_, 0, there - size_);
      if (size_ <= mapping_.populated) mapping_.populated = std::max(mapping_.populated, there);
    }
    size_ = there;
  }
  if (bytes > size_) extend(bytes);
}

void Arena::extend(size_t bytes) {
  bytes = round_up(bytes, bytes >= kHugePage ? kHugePage : kPage);
  if (bytes > mapping_.reserved) {
    const size_t wanted = std::max(round_up(2 * mapping_.reserved, kHugePage), bytes);
    void* place = mmap(nullptr, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) throw std::bad_alloc();
    if (size_ > 0 && mremap(data(), size_, size_, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED) {
      munmap(place, wanted);
      throw std::bad_alloc();
    }
    munmap(data() + size_, mapping_.reserved - size_);
    mapping_.data = static_cast<char*>(place);
    mapping_.reserved = wanted;
  }
  if (mprotect(data(), bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  // Random rows of a large table otherwise miss the TLB at every access; where it is refused, nothing is lost.
  if (bytes >= kHugePage) madvise(data(), bytes, MADV_HUGEPAGE);
  mapping_.usable = size_ = bytes;
}

void Arena::populate([[maybe_unused]] size_t first, [[maybe_unused]] size_t last) {
#ifdef MADV_POPULATE_WRITE
  // What was touched before is passed over, and a refusal loses nothing.
  first = std::max(first / kPage * kPage, mapping_.populated);
  last = std::min(round_up(last, kPage), size_);
  if (first >= last || madvise(data() + first, last - first, MADV_POPULATE_WRITE) != 0) return;
  if (first == mapping_.populated) mapping_.populated = last;
#endif
}

}  // namespace hybrid_torchrec
