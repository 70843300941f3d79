// Accesses of one core to global memory since the last point where all cores met, for the order checks E-13, E-18,
// E-20.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "ascendc/core.h"
#include "cross_flags.h"

namespace twin {

struct GmAccess {
  uint64_t start;
  uint64_t end;
  uint32_t core;
  uint32_t epoch;  // of `pipe` on `core`
  Clock known;     // what the access itself waited for
  uint8_t pipe;
  bool write;
  AtomicMode atomic;
  const char* call;
  std::shared_ptr<const CrossClock> cross;  // what its core knew of the other cores
};

class GmHistory {
 public:
  void Add(const GmAccess& access);
  void Clear() { accesses.clear(); }
  std::vector<GmAccess> accesses;
};

struct GmConflict {
  GmAccess first;
  GmAccess second;
};

// Finds two unordered accesses to the same byte, one of them a write. Sorts `accesses`.
bool FindConflict(std::vector<GmAccess>& accesses, GmConflict& conflict);

}  // namespace twin
