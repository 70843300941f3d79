#include "known_rows.h"

#include <algorithm>

#include "index_entry.h"

namespace embcache {
namespace {

constexpr size_t kAhead = 16;  // rows between the fetch of a line and its use

}  // namespace

void KnownRows::find(const int64_t* ids, const std::vector<int64_t>& order, std::vector<int64_t>& rows) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  rows.assign(order.size(), -1);
  if (sets_.empty()) return;
  for (size_t k = 0; k < order.size(); ++k) {
    if (k + kAhead < order.size()) __builtin_prefetch(&set_of(hash_id(ids[order[k + kAhead]])));
    const int64_t id = ids[order[k]];
    const Set& set = set_of(hash_id(id));
    for (size_t entry = 0; entry < kEntries; ++entry) {
      if (set.ids[entry] == id && set.rows[entry] != kFree) {
        rows[k] = set.rows[entry];
        break;
      }
    }
  }
}

void KnownRows::add(const std::vector<Row>& rows, int64_t total) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (sets_.size() < kMostSets && static_cast<int64_t>(sets_.size() * kEntries) < total) {
    size_t wanted = 2;
    shift_ = 63;
    for (; wanted < kMostSets && static_cast<int64_t>(wanted * kEntries) < 2 * total; wanted *= 2) --shift_;
    sets_.assign(wanted, Set{});
  }
  if (sets_.empty()) return;
  for (size_t k = 0; k < rows.size(); ++k) {
    if (k + kAhead < rows.size()) __builtin_prefetch(&set_of(rows[k + kAhead].hash), 1);
    put(sets_[rows[k].hash >> shift_], rows[k].id, rows[k].row);
  }
}

void KnownRows::put(Set& set, int64_t id, uint32_t row) {
  size_t at = 0;
  while (at + 1 < kEntries && (set.ids[at] != id || set.rows[at] == kFree)) ++at;
  for (; at > 0; --at) {
    set.ids[at] = set.ids[at - 1];
    set.rows[at] = set.rows[at - 1];
  }
  set.ids[0] = id;
  set.rows[0] = row;
}

void KnownRows::forget(uint32_t begin, uint32_t end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Set& set : sets_) {
    for (uint32_t& row : set.rows) {
      if (row != kFree && row >= begin && row < end) row = kFree;
    }
  }
}

}  // namespace embcache
