#include "ids/index.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "common/mix.h"
#include "ids/distinct.h"

namespace hybrid_torchrec {
namespace {

constexpr size_t kAhead = 48;
constexpr size_t kPopulated = 4096;  // new rows from which on their pages are taken together

// Decayed to `step`, of an entry that was last seen at `last`.
float decayed(float value, double decay, int64_t last, int64_t step) {
  if (decay == 1.0 || value == 0.0f || step <= last) return value;
  return static_cast<float>(value * std::pow(decay, static_cast<double>(step - last)));
}

}  // namespace

Index::Index(size_t capacity) : map_(capacity) {
  grow_slots(capacity + 1);
  ids()[0] = 0;
  stats_of_rows()[0] = {0, 0.0f, 0.0f};
  versions()[0] = 0;
}

void Index::grow_slots(size_t slots) {
  const auto grow = [slots](Arena& arena, size_t size) {
    if (slots * size > arena.size()) arena.grow(std::max(slots * size, arena.size() * 3 / 2));
  };
  grow(ids_, sizeof(int64_t));
  grow(versions_, sizeof(int64_t));
  grow(stats_, sizeof(RowStats));
}

void Index::populate(size_t first, size_t last) {
  if (last - first < kPopulated) return;
  ids_.populate(first * sizeof(int64_t), last * sizeof(int64_t));
  versions_.populate(first * sizeof(int64_t), last * sizeof(int64_t));
  stats_.populate(first * sizeof(RowStats), last * sizeof(RowStats));
}

size_t Index::bytes() const {
  return map_.bytes() + slots_ * (sizeof(RowStats) + 2 * sizeof(int64_t)) + free_.capacity() * sizeof(uint32_t) +
         (counts_of_absent_ ? counts_of_absent_->bytes() : 0) + erased_.capacity() * sizeof(erased_[0]) +
         ageing_.bytes();
}

int64_t Index::touch(const int64_t* slots, size_t count, int64_t step, double decay, size_t part, size_t parts) {
  RowStats* rows = stats_of_rows();
  int64_t touched = 0;
  if (part == 0) ageing_.note_step(step);
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count && slots[i + kAhead] > 0) __builtin_prefetch(rows + slots[i + kAhead], 1);
    if (slots[i] <= 0) continue;
    if (parts > 1 && static_cast<size_t>(slots[i]) / 4 % parts != part) continue;  // four in a cache line
    RowStats& row = rows[slots[i]];
    if (decay != 1.0 && row.last_step < step) {
      row.shows = decayed(row.shows, decay, row.last_step, step);
      row.clicks = decayed(row.clicks, decay, row.last_step, step);
    }
    row.last_step = std::max(row.last_step, step);  // no branch: whether it is the first in the batch is hard to tell
    row.shows += 1.0f;
    ++touched;
  }
  return touched;
}

Index::Candidates Index::admit(const int64_t* ids, const int64_t* slots, size_t count, int64_t step,
                               const Admission& admission) {
  std::vector<int64_t> without_row;
  for (size_t i = 0; i < count; ++i) {
    if (slots[i] < 0) without_row.push_back(ids[i]);
  }
  DistinctIds absent = distinct_ids(without_row.data(), without_row.size());
  const bool all = admission.occurrences <= 1 && admission.probability >= 1.0;
  if (all) return {std::move(absent.ids), std::move(absent.counts)};
  Candidates admitted;
  const auto salt = mix64(admission.seed, static_cast<uint64_t>(step));
  for (size_t i = 0; i < absent.ids.size(); ++i) {
    const int64_t id = absent.ids[i];
    int64_t seen = absent.counts[i];
    if (admission.occurrences > 1) {
      seen = counts_of_absent_->add(id, seen);
      if (seen < admission.occurrences) continue;
    }
    if (admission.probability < 1.0) {
      const double drawn = static_cast<double>(mix64(salt, static_cast<uint64_t>(id)) >> 11) * 0x1p-53;
      if (drawn >= admission.probability) continue;
    }
    admitted.first.push_back(id);
    admitted.second.push_back(seen);
  }
  return admitted;
}

// Calls start(i, slot, n) where ids i to i + n - 1 were absent, and got the slots from `slot` on.
template <typename Start>
void Index::put_ids(const int64_t* ids, size_t count, int64_t* slots, const Start& start) {
  const size_t reused = std::min(free_.size(), count);
  if (slots_ + count - reused > IdMap::kAbsent) throw std::length_error("a table has at most 4294967294 rows");
  grow_slots(slots_ + count - reused);
  populate(slots_, slots_ + count - reused);
  const IdMap::FreshSlots fresh{free_.data() + free_.size() - reused, reused, static_cast<IdMap::Slot>(slots_)};
  const size_t put = map_.insert(ids, count, fresh, slots);
  const auto started = [&](size_t i, IdMap::Slot slot, size_t n) {
    std::copy_n(ids + i, n, this->ids() + slot);
    for (size_t k = i; counts_of_absent_ && k < i + n; ++k) counts_of_absent_->remove(ids[k]);
    start(i, slot, n);
  };
  if (put == count && reused == 0) {  // most batches: slots side by side
    started(0, fresh.next, count);
  } else {
    for (size_t i = 0, k = 0; i < count && k < put; ++i) {
      if (slots[i] == static_cast<int64_t>(fresh[k])) started(i, fresh[k++], 1);  // else the id was there
    }
  }
  const size_t again = std::min(put, reused);
  free_.resize(free_.size() - again);
  slots_ += put - again;
}

void Index::insert(const int64_t* ids, const int64_t* shows, size_t count, int64_t step, int64_t* slots) {
  put_ids(ids, count, slots, [&](size_t i, size_t slot, size_t n) {
    RowStats* rows = stats_of_rows() + slot;
    for (size_t k = 0; k < n; ++k) rows[k] = {step, static_cast<float>(shows[i + k]), 0.0f};
    std::fill_n(versions() + slot, n, version_);
    for (size_t k = 0; k < n && !ageing_.knows_none(); ++k) ageing_.note(aged(slot + k));
  });
}

void Index::put(const int64_t* ids, const float* shows, const float* clicks, const int64_t* last_steps, size_t count,
                int64_t* slots) {
  put_ids(ids, count, slots, [](size_t, size_t, size_t) {});
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) prefetch(static_cast<size_t>(slots[i + kAhead]));
    set_stats(static_cast<size_t>(slots[i]), {last_steps[i], shows[i], clicks[i]});
    mark_changed(slots[i]);
  }
}

void Index::resolve(const int64_t* ids, int64_t* slots, size_t count) const {
  constexpr size_t kBlock = 256;
  int64_t wanted[kBlock];
  int64_t found[kBlock];
  size_t places[kBlock];
  for (size_t i = 0; i < count;) {
    size_t block = 0;
    for (; i < count && block < kBlock; ++i) {
      if (slots[i] >= 0) continue;
      wanted[block] = ids[i];
      places[block++] = i;
    }
    map_.find(wanted, block, found);
    for (size_t k = 0; k < block; ++k) slots[places[k]] = std::max<int64_t>(found[k], 0);
  }
}

void Index::erase(const int64_t* ids, size_t count, int64_t* slots) {
  map_.erase(ids, count, slots);
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count && slots[i + kAhead] >= 0) __builtin_prefetch(stats_of_rows() + slots[i + kAhead], 1);
    if (slots[i] < 0) continue;
    stats_of_rows()[slots[i]].last_step = RowStats::kFree;
    free_.push_back(static_cast<uint32_t>(slots[i]));
    if (recorded_from_ > 0) erased_.emplace_back(version_, ids[i]);
  }
}

int64_t Index::next_version() {
  ++version_;
  if (recorded_from_ == 0) recorded_from_ = version_;
  return version_;
}

std::vector<int64_t> Index::used_slots() const {
  std::vector<int64_t> slots;
  slots.reserve(size());
  for (size_t slot = 1; slot < slots_; ++slot) {
    if (used(slot)) slots.push_back(static_cast<int64_t>(slot));
  }
  return slots;
}

std::vector<int64_t> Index::changed_slots(int64_t since) const {
  std::vector<int64_t> slots;
  for (size_t slot = 1; slot < slots_; ++slot) {
    if (versions()[slot] >= since && used(slot)) slots.push_back(static_cast<int64_t>(slot));
  }
  return slots;
}

std::vector<int64_t> Index::erased_ids(int64_t since) const {
  std::vector<int64_t> gone;
  const auto first = std::lower_bound(erased_.begin(), erased_.end(), std::make_pair(since, INT64_MIN));
  for (auto entry = first; entry != erased_.end(); ++entry) {
    if (map_.find(entry->second) == IdMap::kAbsent) gone.push_back(entry->second);
  }
  return distinct_ids(gone.data(), gone.size()).ids;
}

void Index::forget_erased(int64_t before) {
  if (recorded_from_ > 0) recorded_from_ = std::max(recorded_from_, std::min(before, version_));
  const auto first = std::lower_bound(erased_.begin(), erased_.end(), std::make_pair(before, INT64_MIN));
  erased_.erase(erased_.begin(), first);
}

}  // namespace hybrid_torchrec
