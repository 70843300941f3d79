#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "ids/index.h"

// Which rows go first.
namespace hybrid_torchrec {
namespace {

struct Victim {
  double key;
  int64_t last_step;
  int64_t id;
  int64_t slot;

  bool operator<(const Victim& other) const {
    if (key != other.key) return key < other.key;
    if (last_step != other.last_step) return last_step < other.last_step;
    return id < other.id;
  }
};

double key_of(const RowStats& row, const Ranking& ranking, int64_t step) {
  switch (ranking.kind.order()) {
    case Eviction::kLFU:
      return row.shows;
    case Eviction::kLRU:
    case Eviction::kTTL:
      return 0.0;  // by age alone
    case Eviction::kScore:
      break;
  }
  const double score = ranking.show_weight * row.shows + ranking.click_weight * row.clicks;
  if (ranking.decay == 1.0 || step <= row.last_step) return score;
  return score * std::pow(ranking.decay, static_cast<double>(step - row.last_step));
}

// In steps, rounded down: so many for each doubling of shows, linear between powers of two, 0 for less than one.
int64_t worth_of(float shows, int64_t steps_per_doubling) {
  constexpr int kMantissa = 23;
  constexpr int64_t kOne = int64_t{127} << kMantissa;
  uint32_t bits;  // exponent and mantissa side by side are that log2; shows have no sign
  std::memcpy(&bits, &shows, sizeof bits);
  return (steps_per_doubling * std::max<int64_t>(int64_t{bits} - kOne, 0)) >> kMantissa;
}

}  // namespace

// Where age alone counts: the rows of each age are counted, and only those of the age that is needed in part are
// compared. Two bytes a row for a moment, so that nothing but ages is looked at twice.
std::vector<Aged> Index::oldest(size_t count, const Ranking& ranking, int64_t step, const int64_t* keep,
                                size_t kept) const {
  constexpr uint16_t kStays = 0;  // else 1 + the age, at most kAges
  constexpr uint64_t kAges = 4096;
  constexpr size_t kCounters = 4;  // neighbours are of one age, and a counter would wait for itself
  const RowStats* rows = stats_of_rows();
  std::vector<uint16_t> ages(slots_, kStays + 1);
  ages[0] = kStays;
  for (size_t i = 0; i < kept; ++i) {
    if (keep[i] > 0 && static_cast<size_t>(keep[i]) < slots_) ages[static_cast<size_t>(keep[i])] = kStays;
  }
  std::vector<std::array<size_t, kCounters>> counted(kAges + 1);
  for (size_t slot = 1; slot < slots_; ++slot) {
    const int64_t last = rows[slot].last_step;
    const uint64_t unseen = last < step ? static_cast<uint64_t>(step) - static_cast<uint64_t>(last) : 0;
    const bool young = ranking.kind.expires && unseen <= static_cast<uint64_t>(ranking.time_to_live);
    const bool goes = static_cast<bool>(ages[slot]) & (last != RowStats::kFree) & !young;
    const auto age = static_cast<uint16_t>(goes ? 1 + std::min(unseen, kAges - 1) : kStays);
    ages[slot] = age;
    ++counted[age][slot % kCounters];
  }
  const auto of_age = [&](size_t age) { return std::accumulate(counted[age].begin(), counted[age].end(), size_t{0}); };
  size_t limit = kAges;
  size_t older = 0;  // than the limit; all of them go
  while (limit > 1 && older + of_age(limit) < count) older += of_age(limit--);
  const size_t rest = std::min(count - older, of_age(limit));
  std::vector<Aged> chosen;
  chosen.reserve(older + rest);
  std::vector<Aged> last;  // the best `rest` of the limit's age, among at most twice as many
  const auto shrink = [&] {
    std::nth_element(last.begin(), last.begin() + static_cast<std::ptrdiff_t>(rest - 1), last.end());
    last.resize(rest);
  };
  for (size_t slot = 1; slot < slots_; ++slot) {
    if (ages[slot] < limit) continue;
    if (ages[slot] > limit) {
      chosen.push_back(aged(slot));
      continue;
    }
    last.push_back(aged(slot));
    if (last.size() >= 2 * rest + 64) shrink();
  }
  if (last.size() > rest) shrink();
  chosen.insert(chosen.end(), last.begin(), last.end());
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// To find the oldest rows is to look at all, so it is done for several calls at once, where not so many are kept that
// most of those found would be seen before they go. The order is that of `oldest` for each of the calls.
std::vector<int64_t> Index::oldest_slots(size_t count, const Ranking& ranking, int64_t step, const int64_t* keep,
                                         size_t kept) {
  constexpr size_t kCalls = 4;
  std::vector<int64_t> slots;
  if (ranking.kind.expires || 2 * kCalls * count > size() || kept > count) {
    for (const Aged& row : oldest(count, ranking, step, keep, kept)) slots.push_back(row.slot);
    return slots;
  }
  std::vector<bool> safe(slots_, false);
  for (size_t i = 0; i < kept; ++i) {
    if (keep[i] > 0 && static_cast<size_t>(keep[i]) < slots_) safe[static_cast<size_t>(keep[i])] = true;
  }
  slots = ageing_.next(*this, count, safe);
  if (slots.size() == count) return slots;
  std::vector<Aged> others;
  for (size_t i = 0; i < kept; ++i) {
    const auto slot = static_cast<size_t>(std::max<int64_t>(keep[i], 0));
    if (slot == 0 || slot >= slots_ || !used(slot)) continue;
    others.push_back(aged(slot));
  }
  ageing_.restart(oldest(kCalls * count, ranking, step, keep, kept), others);
  return ageing_.next(*this, count, safe);
}

// As `oldest`, with no row compared: two looks at two bytes a slot.
std::vector<int64_t> Index::coldest(size_t count, int64_t steps_per_doubling, int64_t step, const int64_t* keep,
                                    size_t kept) const {
  constexpr uint16_t kStays = 0;  // else 1 + the age, at most kAges
  constexpr int64_t kAges = 4096;
  constexpr int64_t kYoungest = -1024;  // most rows of a small cache are worth more steps than they were unseen
  constexpr size_t kCounters = 2;       // neighbours are of one age, and a counter would wait for itself
  const RowStats* rows = stats_of_rows();
  std::vector<uint16_t> ages(slots_, kStays + 1);
  ages[0] = kStays;
  for (size_t i = 0; i < kept; ++i) {
    if (keep[i] > 0 && static_cast<size_t>(keep[i]) < slots_) ages[static_cast<size_t>(keep[i])] = kStays;
  }
  std::vector<uint32_t> counted((kAges + 1) * kCounters);
  for (size_t slot = 1; slot < slots_; ++slot) {
    const RowStats row = rows[slot];
    const int64_t worth = worth_of(row.shows, std::min(steps_per_doubling, kAges));
    const int64_t unseen = row.last_step < step ? step - std::max<int64_t>(row.last_step, 0) : 0;
    const bool goes = static_cast<bool>(ages[slot]) & (row.last_step != RowStats::kFree);
    const int64_t past = std::clamp<int64_t>(unseen - worth - kYoungest, 0, kAges - 1);
    const auto age = static_cast<uint16_t>(goes ? 1 + past : kStays);
    ages[slot] = age;
    ++counted[age * kCounters + slot % kCounters];
  }
  std::vector<size_t> place(kAges + 1);  // where the next row of an age goes
  auto limit = static_cast<size_t>(kAges);
  size_t chosen = 0;
  for (;; --limit) {
    place[limit] = chosen;
    chosen += size_t{counted[limit * kCounters]} + counted[limit * kCounters + 1];
    if (limit == 1 || chosen >= count) break;
  }
  std::vector<int64_t> slots(std::min(count, chosen));
  for (size_t slot = 1; slot < slots_; ++slot) {
    if (ages[slot] < limit) continue;
    size_t& at = place[ages[slot]];
    if (at < slots.size()) slots[at++] = static_cast<int64_t>(slot);
  }
  return slots;
}

// Keeps the best `count` seen so far among at most twice as many, so that a table of any size takes little memory.
std::vector<int64_t> Index::victims(size_t count, const Ranking& ranking, int64_t step, const int64_t* keep,
                                    size_t kept) {
  if (count == 0) return {};
  const Eviction order = ranking.kind.order();
  if (order == Eviction::kLRU || order == Eviction::kTTL) return oldest_slots(count, ranking, step, keep, kept);
  std::vector<bool> safe(slots_, false);
  for (size_t i = 0; i < kept; ++i) {
    if (keep[i] > 0 && static_cast<size_t>(keep[i]) < slots_) safe[static_cast<size_t>(keep[i])] = true;
  }
  std::vector<Victim> chosen;
  bool limited = false;
  Victim limit{};
  const auto shrink = [&] {
    std::nth_element(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(count - 1), chosen.end());
    limit = chosen[count - 1];
    limited = true;
    chosen.resize(count);
  };
  for (size_t slot = 1; slot < slots_; ++slot) {
    const RowStats& row = stats_of_rows()[slot];
    if (safe[slot] || !used(slot)) continue;
    if (ranking.kind.expires && step - row.last_step <= ranking.time_to_live) continue;
    const Victim victim{key_of(row, ranking, step), row.last_step, id(slot), static_cast<int64_t>(slot)};
    if (limited && !(victim < limit)) continue;
    chosen.push_back(victim);
    if (chosen.size() >= 2 * count + 64) shrink();
  }
  if (chosen.size() > count) shrink();
  std::sort(chosen.begin(), chosen.end());
  std::vector<int64_t> slots(chosen.size());
  std::transform(chosen.begin(), chosen.end(), slots.begin(), [](const Victim& victim) { return victim.slot; });
  return slots;
}

}  // namespace hybrid_torchrec
