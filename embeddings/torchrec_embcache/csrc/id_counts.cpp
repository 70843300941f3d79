#include "id_counts.h"

#include "index_entry.h"

namespace embcache {
namespace {

// The probes of one id hardly ever leave a cache line, so the next ids' lines are what there is to wait for.
constexpr int64_t kAhead = 24;

}  // namespace

size_t IdCounts::home(int64_t id) const { return hash_id(id) & (entries_.size() - 1); }

size_t IdCounts::find(int64_t id) const {
  size_t at = home(id);
  while (entries_[at].count != 0 && entries_[at].id != id) at = (at + 1) & (entries_.size() - 1);
  return at;
}

int64_t IdCounts::add(const int64_t* ids, int64_t count) {
  int64_t fresh = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) __builtin_prefetch(&entries_[home(ids[i + kAhead])]);
    if (2 * static_cast<size_t>(size_ + 1) > entries_.size()) grow();
    Entry& entry = entries_[find(ids[i])];
    if (entry.count == 0) {
      entry.id = ids[i];
      ++size_;
      ++fresh;
    }
    ++entry.count;
  }
  return fresh;
}

int64_t IdCounts::remove(const int64_t* ids, int64_t count) {
  int64_t gone = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) __builtin_prefetch(&entries_[home(ids[i + kAhead])]);
    const size_t at = find(ids[i]);
    if (entries_[at].count == 0 || --entries_[at].count > 0) continue;
    close_gap(at);
    --size_;
    ++gone;
  }
  return gone;
}

int64_t IdCounts::contains(const int64_t* ids, int64_t count, unsigned char* there) const {
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) __builtin_prefetch(&entries_[home(ids[i + kAhead])]);
    there[i] = entries_[find(ids[i])].count != 0 ? 1 : 0;
    found += there[i];
  }
  return found;
}

void IdCounts::grow() {
  std::vector<Entry> old(entries_.size() * 2);
  old.swap(entries_);
  for (const Entry& entry : old) {
    if (entry.count != 0) entries_[find(entry.id)] = entry;
  }
}

// Entries behind the gap move up, unless that would put them before their home.
void IdCounts::close_gap(size_t at) {
  const size_t mask = entries_.size() - 1;
  size_t gap = at;
  for (size_t next = (gap + 1) & mask; entries_[next].count != 0; next = (next + 1) & mask) {
    if (((next - home(entries_[next].id)) & mask) >= ((next - gap) & mask)) {
      entries_[gap] = entries_[next];
      gap = next;
    }
  }
  entries_[gap] = Entry{};
}

int64_t distinct_ids(const int64_t* ids, int64_t count, int64_t* out) {
  size_t capacity = 16;
  while (capacity < 2 * static_cast<size_t>(count)) capacity *= 2;
  const size_t mask = capacity - 1;
  std::vector<uint32_t> places(capacity, 0);  // 1 + the place in out; batches are shorter than 2^32
  int64_t size = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) __builtin_prefetch(&places[hash_id(ids[i + kAhead]) & mask]);
    size_t at = hash_id(ids[i]) & mask;
    while (places[at] != 0 && out[places[at] - 1] != ids[i]) at = (at + 1) & mask;
    if (places[at] != 0) continue;
    out[size] = ids[i];
    places[at] = static_cast<uint32_t>(++size);
  }
  return size;
}

}  // namespace embcache
