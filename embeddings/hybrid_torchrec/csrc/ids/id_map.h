#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/arena.h"

namespace hybrid_torchrec {

// Exact map of 64-bit ids to 32-bit slots; every id is legal.
//
// A bucket is one cache line of five entries, so a lookup is one cache miss. An entry that finds its bucket full goes
// to one of the next buckets, and every bucket counts the entries that passed it by: a search goes on only past a
// bucket with a count, and an erased entry leaves no trace. Buckets are chosen by the high bits of the hash, so that
// growth moves neighbours to neighbours.
//
// The map grows while it is used: a larger array is added, and every insertion moves a few buckets into it; a batch
// that would move them all does so at once. One thread may write at a time; any number of others may call find() and
// contains() meanwhile, and they never wait for growth.
class IdMap {
 public:
  using Slot = uint32_t;
  static constexpr Slot kAbsent = 0xffffffffu;

  // Slots to give out: those of [freed, freed + reused) from the last to the first, then `next` and those after it.
  struct FreshSlots {
    const Slot* freed;
    size_t reused;
    Slot next;

    Slot operator[](size_t i) const {
      return i < reused ? freed[reused - 1 - i] : next + static_cast<Slot>(i - reused);
    }
  };

  explicit IdMap(size_t capacity = 0);
  ~IdMap();
  IdMap(const IdMap&) = delete;
  IdMap& operator=(const IdMap&) = delete;

  size_t size() const { return size_; }
  // Entries for which there is room before the next growth starts.
  size_t capacity() const;
  bool growing() const;
  size_t bytes() const;

  // slots[i] = slot of ids[i], or -1. Any thread.
  void find(const int64_t* ids, size_t count, int64_t* slots) const;
  Slot find(int64_t id) const;

  // The writer's. insert(): returns the slot of an id that is there already, else kAbsent after putting `slot`.
  Slot insert(int64_t id, Slot slot);
  // The same for many, in their order: slots[i] is that of ids[i], the next of `fresh` where the id was absent. Returns
  // how many of `fresh` were put. If it throws, nothing was.
  size_t insert(const int64_t* ids, size_t count, const FreshSlots& fresh, int64_t* slots);
  // Replaces the slot of an id that is there.
  void assign(int64_t id, Slot slot);
  // Returns the slot that the id had, or kAbsent.
  Slot erase(int64_t id);
  // The same for many, in their order: slots[i] = the slot that ids[i] had, or -1.
  void erase(const int64_t* ids, size_t count, int64_t* slots);
  void clear();
  // The writer's: every id with its slot, in no order.
  std::vector<std::pair<int64_t, Slot>> entries() const;
  // Entries that one insertion has moved at most, since the map was made; of many at once, their mean.
  size_t most_moved() const { return most_moved_; }

 private:
  struct Bucket;
  class Buckets;
  struct View;  // the arrays of one moment

  std::shared_ptr<const View> view() const;
  void publish(std::shared_ptr<Buckets> current, std::shared_ptr<Buckets> old);
  size_t wider(size_t entries) const;
  void start_growth(size_t entries);
  void widen(size_t entries);
  size_t move_buckets(size_t count);

  mutable std::mutex publishing_;
  std::shared_ptr<const View> view_;
  std::atomic<uint64_t> views_{0};  // published; a reader that has not seen it change has the last one
  // The writer's own.
  std::shared_ptr<Buckets> current_;
  std::shared_ptr<Buckets> old_;
  size_t next_to_move_ = 0;
  size_t size_ = 0;
  size_t most_moved_ = 0;
};

}  // namespace hybrid_torchrec
