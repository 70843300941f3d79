#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/arena.h"
#include "ids/ageing.h"
#include "ids/eviction_kinds.h"
#include "ids/id_map.h"
#include "ids/occurrence_counts.h"

namespace hybrid_torchrec {

// How often and when the id of a slot was seen.
struct RowStats {
  static constexpr int64_t kFree = INT64_MIN;  // last_step of a slot without a row

  int64_t last_step;
  float shows;  // decayed to last_step
  float clicks;
};

// Which ids get a row.
struct Admission {
  int64_t occurrences = 1;   // how many it takes
  double probability = 1.0;  // of each step in which the id occurs
  uint64_t seed = 0;
};

// By what victims are chosen: the lowest key first, then the oldest row, then the lowest id.
struct Ranking {
  EvictionKind kind = kEvictions[0];
  double show_weight = 1.0;
  double click_weight = 0.0;
  double decay = 1.0;        // of shows and clicks, per step
  int64_t time_to_live = 0;  // where rows expire: only those go that were not seen in more steps than this
};

// The ids of a table: their slots and what is known of their rows. Slot 0 is nobody's. One writer at a time, which its
// callers see to; find() at any time.
class Index {
 public:
  explicit Index(size_t capacity);

  size_t size() const { return map_.size(); }
  // Slots that are or were in use, with slot 0: storage must have as many rows.
  size_t slots() const { return slots_; }
  const IdMap& map() const { return map_; }
  size_t bytes() const;
  int64_t id(size_t slot) const { return ids()[slot]; }
  RowStats& stats(size_t slot) { return stats_of_rows()[slot]; }
  void set_stats(size_t slot, const RowStats& stats) {
    this->stats(slot) = stats;
    ageing_.note(aged(slot));
  }
  // is_as_it_was() of a row of the slot will be asked soon.
  void prefetch_age(size_t slot) const {
    __builtin_prefetch(ids() + slot);
    __builtin_prefetch(stats_of_rows() + slot);
  }
  bool is_as_it_was(const Aged& row) const {
    const auto slot = static_cast<size_t>(row.slot);
    return stats_of_rows()[slot].last_step == row.last_step && id(slot) == row.id;
  }
  // What is known of a slot will be read or written soon.
  void prefetch(size_t slot) const {
    __builtin_prefetch(ids() + slot);
    __builtin_prefetch(stats_of_rows() + slot, 1);
    __builtin_prefetch(versions() + slot, 1);
  }
  bool used(size_t slot) const { return stats_of_rows()[slot].last_step != RowStats::kFree; }
  // Of each slot, the version of the last change of its values.
  int64_t* versions() const { return reinterpret_cast<int64_t*>(versions_.data()); }

  void find(const int64_t* ids, size_t count, int64_t* slots) const { map_.find(ids, count, slots); }

  // An occurrence of every slot that is positive, in step `step`; decay as of Ranking. `part` of `parts` does
  // those slots that fall to it, so that threads may do the others. Returns how many it did.
  int64_t touch(const int64_t* slots, size_t count, int64_t step, double decay, size_t part, size_t parts);

  // Ids to be inserted, with their occurrences.
  using Candidates = std::pair<std::vector<int64_t>, std::vector<int64_t>>;
  // Counts the ids whose slot is negative, and returns those that are admitted in the order of their occurrence.
  Candidates admit(const int64_t* ids, const int64_t* slots, size_t count, int64_t step, const Admission& admission);
  void count_with(std::unique_ptr<OccurrenceCounts> counts) { counts_of_absent_ = std::move(counts); }
  // Null where occurrences are not counted.
  OccurrenceCounts* occurrences() const { return counts_of_absent_.get(); }

  // Puts `count` ids that are absent, and gives their slots, freed ones first.
  void insert(const int64_t* ids, const int64_t* shows, size_t count, int64_t step, int64_t* slots);
  // Puts ids with what is known of their rows, or replaces that of those that are there; gives their slots.
  void put(const int64_t* ids, const float* shows, const float* clicks, const int64_t* last_steps, size_t count,
           int64_t* slots);
  // Slots of the ids whose slot is negative: 0 for those that have none.
  void resolve(const int64_t* ids, int64_t* slots, size_t count) const;

  // slots[i] = the slot that ids[i] had, or -1.
  void erase(const int64_t* ids, size_t count, int64_t* slots);
  int64_t erase(int64_t id) {
    int64_t slot;
    erase(&id, 1, &slot);
    return slot;
  }

  // Slots of at most `count` rows, the first victim first; none of `keep`.
  std::vector<int64_t> victims(size_t count, const Ranking& ranking, int64_t step, const int64_t* keep, size_t kept);
  // The same for a cache, which asks often and for many: the rows that were seen longest ago first, where each doubling
  // of a row's shows counts as so many steps, and a part of one as that part of them. Of those that are as old, the
  // lowest slots; ages go from -1024 to 3071.
  std::vector<int64_t> coldest(size_t count, int64_t steps_per_doubling, int64_t step, const int64_t* keep,
                               size_t kept) const;
  std::vector<int64_t> used_slots() const;
  // Slots whose rows went; the last is the first to be used again.
  const std::vector<uint32_t>& free_slots() const { return free_; }

  void mark_changed(int64_t slot) { versions()[slot] = version_; }

  // Changes. Erased ids are kept from the first call on of next_version().
  int64_t version() const { return version_; }
  int64_t next_version();
  int64_t recorded_from() const { return recorded_from_; }
  std::vector<int64_t> changed_slots(int64_t since) const;
  std::vector<int64_t> erased_ids(int64_t since) const;
  void forget_erased(int64_t before);

 private:
  Aged aged(size_t slot) const { return {stats_of_rows()[slot].last_step, id(slot), static_cast<int64_t>(slot)}; }
  std::vector<Aged> oldest(size_t count, const Ranking& ranking, int64_t step, const int64_t* keep, size_t kept) const;
  std::vector<int64_t> oldest_slots(size_t count, const Ranking& ranking, int64_t step, const int64_t* keep,
                                    size_t kept);
  int64_t* ids() const { return reinterpret_cast<int64_t*>(ids_.data()); }
  RowStats* stats_of_rows() const { return reinterpret_cast<RowStats*>(stats_.data()); }
  template <typename Start>
  void put_ids(const int64_t* ids, size_t count, int64_t* slots, const Start& start);
  void grow_slots(size_t slots);
  void populate(size_t first, size_t last);

  IdMap map_;
  // Every slot is written when it is given to an id.
  Arena ids_{Arena::kUnlimited, Arena::Pages::kAny};
  Arena stats_{Arena::kUnlimited, Arena::Pages::kAny};
  Arena versions_{Arena::kUnlimited, Arena::Pages::kAny};
  size_t slots_ = 1;
  std::vector<uint32_t> free_;
  Ageing ageing_;
  std::unique_ptr<OccurrenceCounts> counts_of_absent_;
  int64_t version_ = 1;
  int64_t recorded_from_ = 0;                        // 0: not recorded
  std::vector<std::pair<int64_t, int64_t>> erased_;  // version, id
};

}  // namespace hybrid_torchrec
