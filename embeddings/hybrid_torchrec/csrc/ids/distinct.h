#pragma once

#include <cstdint>
#include <vector>

#include "common/mix.h"

namespace hybrid_torchrec {

// Distinct ids in the order in which they were added, and how often each was.
class DistinctIds {
 public:
  explicit DistinctIds(size_t expected = 0) {
    size_t places = 16;
    while (places < 2 * expected) places *= 2;
    places_.assign(places, 0);
  }

  const std::vector<int64_t>& ids() const { return ids_; }
  const std::vector<int64_t>& counts() const { return counts_; }

  // Returns the position of the id among the distinct ones.
  size_t add(int64_t id) {
    if (2 * ids_.size() >= places_.size()) widen();
    uint32_t& place = find(id);
    if (place == 0) {
      ids_.push_back(id);
      counts_.push_back(0);
      place = static_cast<uint32_t>(ids_.size());
    }
    ++counts_[place - 1];
    return place - 1;
  }

 private:
  uint32_t& find(int64_t id) {
    const size_t mask = places_.size() - 1;
    size_t at = static_cast<size_t>(mix64(static_cast<uint64_t>(id) ^ kGoldenGamma)) & mask;
    while (places_[at] != 0 && ids_[places_[at] - 1] != id) at = (at + 1) & mask;
    return places_[at];
  }

  void widen() {
    places_.assign(2 * places_.size(), 0);
    for (size_t i = 0; i < ids_.size(); ++i) find(ids_[i]) = static_cast<uint32_t>(i + 1);
  }

  std::vector<uint32_t> places_;  // 1 + position; 0: free
  std::vector<int64_t> ids_;
  std::vector<int64_t> counts_;
};

}  // namespace hybrid_torchrec
