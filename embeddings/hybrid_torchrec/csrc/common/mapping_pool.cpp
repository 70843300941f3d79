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
  for (const auto* mappings : {&kept_, &borrowed_}) {
    for (const Mapping& mapping : *mappings) munmap(mapping.data, mapping.reserved);
  }
}

Mapping MappingPool::take(size_t reserved) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto* mappings : {&kept_, &borrowed_}) {
    const auto last = std::find_if(mappings->rbegin(), mappings->rend(),
                                   [=](const Mapping& mapping) { return mapping.reserved == reserved; });
    if (last == mappings->rend()) continue;
    const Mapping taken = *last;
    mappings->erase(std::next(last).base());
    return taken;
  }
  return {};
}

void MappingPool::use(const Mapping& mapping, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  (mapping.lent ? lent_ : idle_) -= bytes;
}

void MappingPool::give(Mapping mapping, size_t used) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (mapping.lent) {  // what was not used may still have pages
    lent_ -= mapping.usable - used;
    idle_ += mapping.usable - used;
    mapping.lent = false;
  }
  idle_ += used;
  kept_.push_back(mapping);
  if (mapping.usable > kLargest) retire(std::prev(kept_.end()));
  while (idle_ > kMost && !kept_.empty()) retire(kept_.begin());
  while (lent_ > kMostLent && !borrowed_.empty()) {
    munmap(borrowed_.front().data, borrowed_.front().reserved);
    lent_ -= borrowed_.front().usable;
    borrowed_.pop_front();
  }
}

void MappingPool::retire(Place place) {
  idle_ -= place->usable;
  if (place->usable >= kLeastLent && madvise(place->data, place->usable, MADV_FREE) == 0) {
    lent_ += place->usable;
    borrowed_.push_back(*place);
    borrowed_.back().lent = true;
    borrowed_.back().populated = 0;
  } else {
    munmap(place->data, place->reserved);
  }
  kept_.erase(place);
}

size_t MappingPool::idle() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return idle_;
}

size_t MappingPool::lent() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return lent_;
}

}  // namespace hybrid_torchrec
