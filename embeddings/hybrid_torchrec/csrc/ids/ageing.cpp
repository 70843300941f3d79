#include "ids/ageing.h"

#include <algorithm>
#include <iterator>

#include "ids/index.h"

namespace hybrid_torchrec {

void Ageing::restart(std::vector<Aged> oldest, const std::vector<Aged>& others) {
  clear();
  rows_ = std::move(oldest);
  most_late_ = SIZE_MAX;
  if (!rows_.empty()) last_ = rows_.back();
  for (const Aged& row : others) note(row);
  most_late_ = 4 * (rows_.size() + late_.size()) + kFewest;
}

void Ageing::clear() {
  rows_.clear();
  late_.clear();
  next_ = 0;
}

std::vector<int64_t> Ageing::next(const Index& index, size_t count, const std::vector<bool>& safe) {
  take_in(index, safe);
  std::vector<int64_t> chosen;
  chosen.reserve(count);
  std::vector<Aged> stay;
  stay.reserve(count);
  size_t k = next_;
  for (; k < rows_.size() && chosen.size() < count; ++k) {
    if (k + kAhead < rows_.size()) index.prefetch_age(static_cast<size_t>(rows_[k + kAhead].slot));
    const Aged& row = rows_[k];
    if (!index.is_as_it_was(row)) continue;
    stay.push_back(row);
    if (!safe[static_cast<size_t>(row.slot)]) chosen.push_back(row.slot);
  }
  next_ = k - stay.size();
  std::copy(stay.begin(), stay.end(), rows_.begin() + static_cast<std::ptrdiff_t>(next_));
  return chosen;
}

// Rows that came late take their places; those that must stay anyway go on waiting, as most of them will be seen.
void Ageing::take_in(const Index& index, const std::vector<bool>& safe) {
  std::vector<Aged> fresh;
  size_t waiting = 0;
  for (size_t k = 0; k < late_.size(); ++k) {
    if (k + kAhead < late_.size()) index.prefetch_age(static_cast<size_t>(late_[k + kAhead].slot));
    const Aged row = late_[k];
    if (!index.is_as_it_was(row)) continue;
    if (safe[static_cast<size_t>(row.slot)]) {
      late_[waiting++] = row;
    } else {
      fresh.push_back(row);
    }
  }
  late_.resize(waiting);
  if (fresh.empty()) return;
  std::sort(fresh.begin(), fresh.end());
  std::vector<Aged> merged;
  merged.reserve(rows_.size() - next_ + fresh.size());
  std::merge(rows_.begin() + static_cast<std::ptrdiff_t>(next_), rows_.end(), fresh.begin(), fresh.end(),
             std::back_inserter(merged));
  // A row that got its old numbers anew is there twice.
  merged.erase(std::unique(merged.begin(), merged.end()), merged.end());
  rows_ = std::move(merged);
  next_ = 0;
}

}  // namespace hybrid_torchrec
