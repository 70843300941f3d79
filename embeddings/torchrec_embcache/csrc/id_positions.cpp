#include "id_positions.h"

#include "index_entry.h"

namespace embcache {
namespace {

constexpr int64_t kAhead = 24;  // ids between the fetch of a line and its use

}  // namespace

IdPositions::IdPositions(const int64_t* ids, int64_t count) : ids_(ids, ids + count) {
  size_t capacity = 16;
  while (capacity < 2 * static_cast<size_t>(count)) capacity *= 2;
  places_.resize(capacity);
  for (int64_t i = 0; i < count; ++i) places_[place_of(ids[i])] = static_cast<uint32_t>(i + 1);
}

size_t IdPositions::place_of(int64_t id) const {
  const size_t mask = places_.size() - 1;
  size_t at = hash_id(id) & mask;
  while (places_[at] != 0 && ids_[places_[at] - 1] != id) at = (at + 1) & mask;
  return at;
}

void IdPositions::find(const int64_t* ids, int64_t count, int64_t* positions) const {
  const size_t mask = places_.size() - 1;
  for (int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) __builtin_prefetch(&places_[hash_id(ids[i + kAhead]) & mask]);
    positions[i] = int64_t{places_[place_of(ids[i])]} - 1;
  }
}

}  // namespace embcache
