#include "common/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace hybrid_torchrec {
namespace {

constexpr size_t kPage = size_t{1} << 12;
constexpr size_t kHugePage = size_t{1} << 21;
constexpr size_t kSmallest = size_t{1} << 20;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Arena::Arena(size_t reserve) {
  // A limit of the process may refuse much address space: then less has to do.
  for (size_t bytes = round_up(std::max(reserve, kPage), kHugePage); bytes >= kSmallest; bytes /= 2) {
    void* place = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) continue;
    data_ = static_cast<char*>(place);
    reserved_ = bytes;
    return;
  }
  throw std::bad_alloc();
}

Arena::~Arena() { munmap(data_, reserved_); }

void Arena::grow(size_t bytes) {
  if (bytes <= size_) return;
  bytes = round_up(bytes, bytes >= kHugePage ? kHugePage : kPage);
  if (bytes > reserved_) {
    const size_t wanted = std::max(round_up(2 * reserved_, kHugePage), bytes);
    void* place = mmap(nullptr, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) throw std::bad_alloc();
    if (size_ > 0 && mremap(data_, size_, size_, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED) {
      munmap(place, wanted);
      throw std::bad_alloc();
    }
    munmap(data_ + size_, reserved_ - size_);
    data_ = static_cast<char*>(place);
    reserved_ = wanted;
  }
  if (mprotect(data_, bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  // Random rows of a large table otherwise miss the TLB at every access; where it is refused, nothing is lost.
  if (bytes >= kHugePage) madvise(data_, bytes, MADV_HUGEPAGE);
  size_ = bytes;
}

void Arena::populate([[maybe_unused]] size_t first, [[maybe_unused]] size_t last) {
#ifdef MADV_POPULATE_WRITE
  // What was touched before is passed over, and a refusal loses nothing.
  first = first / kPage * kPage;
  last = std::min(round_up(last, kPage), size_);
  if (first < last) madvise(data_ + first, last - first, MADV_POPULATE_WRITE);
#endif
}

}  // namespace hybrid_torchrec
