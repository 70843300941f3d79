#include <algorithm>
#include <cmath>

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

}  // namespace

// Keeps the best `count` seen so far among at most twice as many, so that a table of any size takes little memory.
std::vector<int64_t> Index::victims(size_t count, const Ranking& ranking, int64_t step, const int64_t* keep,
                                    size_t kept) const {
  std::vector<bool> safe(slots_, false);
  for (size_t i = 0; i < kept; ++i) {
    if (keep[i] > 0 && static_cast<size_t>(keep[i]) < slots_) safe[static_cast<size_t>(keep[i])] = true;
  }
  std::vector<Victim> chosen;
  if (count == 0) return {};
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
