#pragma once

#include <algorithm>
#include <cstdint>

#include "common/mix.h"
#include "ids/id_map.h"

namespace hybrid_torchrec {

// One cache line. `meta`: bits 0-4 which entries are in use, bit 5 that a write goes on, bits 8-15 how many entries
// passed by, bits 16-31 the number of the last write. A reader takes what it read for true if meta is the same after
// as before. Acquire and release are free on x86.
struct alignas(64) IdMap::Bucket {
  static constexpr uint32_t kEntries = 5;
  static constexpr uint32_t kUsed = (1u << kEntries) - 1;
  static constexpr uint32_t kWriting = 1u << 5;
  static constexpr uint32_t kPassed = 1u << 8;
  static constexpr uint32_t kPassedMask = 0xffu << 8;
  static constexpr uint32_t kVersion = 1u << 16;

  int64_t ids[kEntries];
  Slot slots[kEntries];
  uint32_t meta;

  // Whether entries passed by, or the next one will.
  bool goes_on() const {
    const uint32_t now = __atomic_load_n(&meta, __ATOMIC_RELAXED);
    return ((now & kPassedMask) != 0) | ((now & kUsed) == kUsed);
  }
  uint32_t load_meta() const { return __atomic_load_n(&meta, __ATOMIC_ACQUIRE); }

  // Which entries hold the id.
  uint32_t matches(int64_t id, uint32_t used) const {
    uint32_t found = 0;
    for (uint32_t i = 0; i < kEntries; ++i) {
      found |= static_cast<uint32_t>(__atomic_load_n(&ids[i], __ATOMIC_ACQUIRE) == id) << i;
    }
    return found & used & kUsed;
  }

  // Any thread: the slot or kAbsent, and whether the search goes on in the next bucket.
  Slot read(int64_t id, bool& passed) const {
    for (;;) {
      const uint32_t before = load_meta();
      const uint32_t found = matches(id, before);
      Slot slot = kAbsent;
      if (found != 0) slot = __atomic_load_n(&slots[__builtin_ctz(found)], __ATOMIC_ACQUIRE);
      if ((before & kWriting) == 0 && __atomic_load_n(&meta, __ATOMIC_RELAXED) == before) {
        passed = (before & kPassedMask) != 0;
        return slot;
      }
    }
  }

  // The writer's. Not in any entry, in use or not: a branch for each is told right where most ids are new.
  bool is_nowhere(int64_t id) const {
    for (uint32_t i = 0; i < kEntries; ++i) {
      if (ids[i] == id) return false;
    }
    return true;
  }
  uint32_t matches_alone(int64_t id) const {
    uint32_t found = 0;
    for (uint32_t i = 0; i < kEntries; ++i) found |= static_cast<uint32_t>(ids[i] == id) << i;
    return found & meta;
  }
  // Whether an id that is not here is nowhere, and has room here.
  bool last_with_room() const { return (meta & kPassedMask) == 0 && !full(); }
  bool full() const { return (meta & kUsed) == kUsed; }
  // Readers take an entry that meta does not name for free, so nothing is seen of the write before its end.
  void put(int64_t id, Slot slot) {
    const uint32_t entry = static_cast<uint32_t>(__builtin_ctz(~meta & kUsed));
    __atomic_store_n(&ids[entry], id, __ATOMIC_RELEASE);
    __atomic_store_n(&slots[entry], slot, __ATOMIC_RELEASE);
    end(meta | 1u << entry);
  }
  void set_slot(uint32_t entry, Slot slot) {
    const uint32_t before = begin();
    __atomic_store_n(&slots[entry], slot, __ATOMIC_RELEASE);
    end(before);
  }
  void remove(uint32_t entries) { end(begin() & ~entries); }
  void pass() {
    // A count that has reached its end stays there: a search then goes on once more than it must.
    if ((meta & kPassedMask) != kPassedMask) end(begin() + kPassed);
  }
  void unpass() {
    if ((meta & kPassedMask) != kPassedMask) end(begin() - kPassed);
  }

 private:
  uint32_t begin() {
    const uint32_t before = meta;
    __atomic_store_n(&meta, before | kWriting, __ATOMIC_RELAXED);
    return before;
  }
  void end(uint32_t after) { __atomic_store_n(&meta, after + kVersion, __ATOMIC_RELEASE); }
};

class IdMap::Buckets {
 public:
  Buckets(size_t count, Arena::Pages pages) : count_(count), arena_(count * sizeof(Bucket), pages) {
    arena_.grow(count * sizeof(Bucket));
  }

  size_t count() const { return count_; }
  size_t entries() const { return count_ * Bucket::kEntries; }
  size_t bytes() const { return count_ * sizeof(Bucket); }
  void populate() { arena_.populate(0, bytes()); }
  // Another seed than that of the ranks: else the ids of a rank would share their buckets.
  static uint64_t hash(int64_t id) { return mix64(static_cast<uint64_t>(id) + kGoldenGamma); }
  size_t home_of(uint64_t hash) const {
    return static_cast<size_t>((static_cast<unsigned __int128>(hash) * count_) >> 64);
  }
  size_t home(int64_t id) const { return home_of(hash(id)); }
  size_t next(size_t bucket) const { return bucket + 1 == count_ ? 0 : bucket + 1; }
  Bucket& operator[](size_t bucket) const { return reinterpret_cast<Bucket*>(arena_.data())[bucket]; }
  void prefetch(size_t bucket) const { __builtin_prefetch(&(*this)[bucket]); }
  // Of a bucket whose line is here: the next one, if a search or an entry may go on there. Without a branch, which
  // would be told wrong as often as buckets are full; past the last bucket it does nothing.
  void prefetch_beyond(size_t bucket) const { __builtin_prefetch(&(*this)[bucket] + (*this)[bucket].goes_on()); }

  Slot find(int64_t id, size_t home) const {
    bool passed = false;
    Slot slot = (*this)[home].read(id, passed);
    // At most one round, should the counts of all buckets have reached their end.
    for (size_t bucket = home; slot == kAbsent && passed; slot = (*this)[bucket].read(id, passed)) {
      bucket = next(bucket);
      if (bucket == home) break;
    }
    return slot;
  }

  // The writer's. Returns the slot of an id that is there, else kAbsent after putting `slot`.
  Slot insert(int64_t id, Slot slot, size_t home) {
    Bucket& first = (*this)[home];
    if (!first.is_nowhere(id)) {
      if (const uint32_t found = first.matches_alone(id); found != 0) return first.slots[__builtin_ctz(found)];
    }
    if (first.last_with_room()) {
      first.put(id, slot);
      return kAbsent;
    }
    const Slot there = find(id, home);
    if (there == kAbsent) put(id, slot, home);
    return there;
  }

  // The same for many; returns how many of `fresh`, from the taken-th on, have been put then.
  size_t insert(const int64_t* ids, size_t count, const FreshSlots& fresh, size_t taken, int64_t* slots) {
    constexpr size_t kAhead = 32;  // insertions between the fetch of a line and its use
    constexpr size_t kNear = 12;   // and of the one behind it
    size_t homes[kAhead];
    const auto fetch = [&](size_t i) {
      homes[i % kAhead] = home(ids[i]);
      prefetch(homes[i % kAhead]);
    };
    for (size_t i = 0; i < std::min(count, kAhead); ++i) fetch(i);
    for (size_t i = 0; i < count; ++i) {
      const size_t bucket = homes[i % kAhead];
      if (i + kAhead < count) fetch(i + kAhead);
      if (i + kNear < count) prefetch_beyond(homes[(i + kNear) % kAhead]);
      Slot there = insert(ids[i], fresh[taken], bucket);
      if (there == kAbsent) there = fresh[taken++];
      slots[i] = static_cast<int64_t>(there);
    }
    return taken;
  }

  void put(int64_t id, Slot slot) { put(id, slot, home(id)); }
  void put(int64_t id, Slot slot, size_t bucket) {
    for (; (*this)[bucket].full(); bucket = next(bucket)) (*this)[bucket].pass();
    (*this)[bucket].put(id, slot);
  }

  // Calls found(bucket, entry) where the id is; returns whether it is.
  template <typename Found>
  bool locate(int64_t id, size_t home, Found found) const {
    size_t bucket = home;
    do {
      const Bucket& here = (*this)[bucket];
      const uint32_t matches = here.matches(id, here.meta);
      if (matches != 0) {
        found(bucket, static_cast<uint32_t>(__builtin_ctz(matches)));
        return true;
      }
      if ((here.meta & Bucket::kPassedMask) == 0) return false;
      bucket = next(bucket);
    } while (bucket != home);
    return false;
  }

  Slot erase(int64_t id, size_t home) {
    Slot slot = kAbsent;
    locate(id, home, [&](size_t bucket, uint32_t entry) {
      slot = (*this)[bucket].slots[entry];
      (*this)[bucket].remove(1u << entry);
      for (size_t b = home; b != bucket; b = next(b)) (*this)[b].unpass();
    });
    return slot;
  }

 private:
  size_t count_;
  Arena arena_;
};

struct IdMap::View {
  std::shared_ptr<const Buckets> current;
  std::shared_ptr<const Buckets> old;  // while the map grows
};

}  // namespace hybrid_torchrec
