#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "common/mix.h"

namespace hybrid_torchrec {

struct DistinctIds {
  std::vector<int64_t> ids;     // in the order of their first occurrence
  std::vector<int64_t> counts;  // how often each occurs
};

// positions[i] = the position of ids[i] among the distinct ones; may be null. Of at most 2^32 - 1 distinct ids.
//
// An entry of the hash table holds the upper half of an id's hash and the id's position, so that another id is told
// apart without a look at the ids but once in 2^32 times.
inline DistinctIds distinct_ids(const int64_t* ids, size_t count, int64_t* positions = nullptr) {
  constexpr uint64_t kUpper = 0xffffffff00000000u;
  size_t places = 16;
  while (places < 2 * count) places *= 2;
  const size_t mask = places - 1;
  std::vector<uint64_t> table(places);  // upper half of the hash, 1 + position; 0: free
  // One more, for the id that is written before it is known to be new.
  DistinctIds result{std::vector<int64_t>(count + 1), std::vector<int64_t>(count + 1)};
  int64_t* const known = result.ids.data();
  size_t size = 0;
  std::array<uint64_t, 64> hashes;
  for (size_t start = 0; start < count; start += hashes.size()) {
    const size_t some = std::min(hashes.size(), count - start);
    for (size_t i = 0; i < some; ++i) {
      hashes[i] = mix64(static_cast<uint64_t>(ids[start + i]) ^ kGoldenGamma);
      __builtin_prefetch(&table[hashes[i] & mask], 1);
    }
    for (size_t i = 0; i < some; ++i) {
      const int64_t id = ids[start + i];
      const uint64_t upper = hashes[i] & kUpper;
      known[size] = id;
      size_t at = hashes[i] & mask;
      uint64_t entry = table[at];
      while (entry != 0 && ((entry & kUpper) != upper || known[(entry & ~kUpper) - 1] != id)) {
        at = (at + 1) & mask;
        entry = table[at];
      }
      if (entry == 0) table[at] = entry = upper | ++size;
      const size_t position = (entry & ~kUpper) - 1;
      ++result.counts[position];
      if (positions != nullptr) positions[start + i] = static_cast<int64_t>(position);
    }
  }
  result.ids.resize(size);
  result.counts.resize(size);
  return result;
}

}  // namespace hybrid_torchrec
