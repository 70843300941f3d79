#pragma once

// Generated from hybrid_torchrec/kinds.py by generate_kinds.py; change these instead.

#include "common/kind.h"

namespace hybrid_torchrec {

enum class Eviction : int64_t { kLFU = 0, kLRU = 1, kScore = 2, kTTL = 3 };

struct EvictionKind {
  int64_t number;
  const char* name;
  bool expires;  // only rows that were not seen for some steps may go

  Eviction order() const { return static_cast<Eviction>(number); }
};

constexpr EvictionKind kEvictions[] = {
    // clang-format off
    {0, "LFU", false},
    {1, "LRU", false},
    {2, "Score", false},
    {3, "TTL", true},
    // clang-format on
};

}  // namespace hybrid_torchrec
