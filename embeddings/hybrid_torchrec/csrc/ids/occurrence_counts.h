#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ids/id_map.h"

namespace hybrid_torchrec {

// How often ids were seen that have no row yet.
class OccurrenceCounts {
 public:
  virtual ~OccurrenceCounts() = default;
  // Adds to the count of an id and returns the new one.
  virtual int64_t add(int64_t id, int64_t times) = 0;
  // The id has got a row, or is to be forgotten.
  virtual void remove(int64_t id) = 0;
  virtual size_t bytes() const = 0;

  // For checkpoints: exact counts by ascending id, or a sketch's counters, with no ids. load() takes what save() gave,
  // and throws std::invalid_argument if it is of another kind or size.
  struct Saved {
    std::vector<int64_t> ids;
    std::vector<int64_t> counts;
  };
  virtual Saved save() const = 0;
  virtual void load(const Saved& saved) = 0;

  // Counts of every id: 13 to 26 bytes for each.
  static std::unique_ptr<OccurrenceCounts> exact();
  // A count-min sketch with conservative update: `depth` rows of `width` counters of 16 bits, never too low. A counter
  // stays at 65535.
  static std::unique_ptr<OccurrenceCounts> sketch(int64_t width, int64_t depth, uint64_t seed);
};

}  // namespace hybrid_torchrec
