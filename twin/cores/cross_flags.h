// Flags between cores. A set counts for the core's group; once the whole group has set, everybody's counter
// rises, and who then waits knows what the others had finished when they set.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "ascendc/core.h"
#include "l2_cache.h"

namespace twin {

constexpr int kCrossFlags = 16;
constexpr uint32_t kMostCrossSets = 15;

// What a core knows of the pipes of every core of the launch, by block.
using CrossClock = std::vector<Clock>;

struct CrossSet {
  CrossClock finished;
  L2Place place;
};

struct CrossArrival {
  CrossClock finished;
  std::shared_ptr<const L2Meeting> meeting;
};

struct CrossFlag {
  std::deque<CrossSet> sets[2];      // by mode: this core's, not yet answered by the group
  std::deque<CrossArrival> arrived;  // its counter: one entry for each wait that may pass
};

void JoinCross(CrossClock& into, const CrossClock& from);

}  // namespace twin
