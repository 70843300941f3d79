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
  for (const auto* mappings : {&kept_, &lent_mappings_}) {
    for (const Mapping& mapping : *mappings) munmap(mapping.data, mapping.reserved);
  }
}

Mapping MappingPool::take(size_t reserved) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto* mappings : {&kept_, &lent_mappings_}) {
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
  (mapping.lent ? lent_bytes_ : idle_) -= bytes;
}

void MappingPool::give(Mapping mapping, size_t used) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (mapping.lent && used == 0) {  // it is as it was
    lent_mappings_.push_back(mapping);
    return;
  }
  if (mapping.lent) {  // what was not used may still have pages
    lent_bytes_ -= mapping.usable - used;
    idle_ += mapping.usable - used;
    mapping.lent = false;
  }
  idle_ += used;
  kept_.push_back(mapping);
  if (mapping.usable > kLargest) retire(std::prev(kept_.end()));
  while (idle_ > kMost && !kept_.empty()) retire(kept_.begin());
  while (lent_bytes_ > kMostLent && !lent_mappings_.empty()) {
    munmap(lent_mappings_.front().data, lent_mappings_.front().reserved);
    lent_bytes_ -= lent_mappings_.front().usable;
    lent_mappings_.pop_front();
  }
}

void MappingPool::retire(Place place) {
  idle_ -= place->usable;
  const bool fits = place->usable >= kLeastLent && place->usable <= kMostLent;
  if (fits && madvise(place->data, place->usable, MADV_FREE) == 0) {
    lent_bytes_ += place->usable;
    lent_mappings_.push_back(*place);
    lent_mappings_.back().lent = true;
    lent_mappings_.back().populated = 0;
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
  return lent_bytes_;
}

}  // namespace hybrid_torchrec
