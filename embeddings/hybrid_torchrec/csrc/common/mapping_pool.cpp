#include "common/mapping_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace hybrid_torchrec {

MappingPool& MappingPool::instance() {
  static auto* pool = new MappingPool;  // tables may outlive what is destroyed at the end of the process
  return *pool;
}

MappingPool::~MappingPool() {
  for (const Mapping& mapping : kept_) munmap(mapping.data, mapping.reserved);
}

Mapping MappingPool::take(size_t reserved) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto last =
      std::find_if(kept_.rbegin(), kept_.rend(), [=](const Mapping& kept) { return kept.reserved == reserved; });
  if (last == kept_.rend()) return {};
  const Mapping taken = *last;
  kept_.erase(std::next(last).base());
  return taken;
}

void MappingPool::use(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_ -= bytes;
}

void MappingPool::give(const Mapping& mapping, size_t used) {
  const std::lock_guard<std::mutex> lock(mutex_);
  kept_.push_back(mapping);
  idle_ += used;
  const auto drop = [this](std::deque<Mapping>::iterator place) {
    munmap(place->data, place->reserved);
    idle_ -= place->usable;
    kept_.erase(place);
  };
  if (mapping.usable > kLargest) drop(std::prev(kept_.end()));
  while (idle_ > kMost && !kept_.empty()) drop(kept_.begin());
}

size_t MappingPool::idle() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return idle_;
}

}  // namespace hybrid_torchrec
