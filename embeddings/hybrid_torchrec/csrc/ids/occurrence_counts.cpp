#include "ids/occurrence_counts.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "common/mix.h"

namespace hybrid_torchrec {
namespace {

class ExactCounts : public OccurrenceCounts {
 public:
  int64_t add(int64_t id, int64_t times) override {
    constexpr int64_t kMost = IdMap::kAbsent - 1;
    const IdMap::Slot first = static_cast<IdMap::Slot>(std::min(times, kMost));
    const IdMap::Slot before = counts_.insert(id, first);
    if (before == IdMap::kAbsent) return first;
    const auto now = static_cast<IdMap::Slot>(std::min(static_cast<int64_t>(before) + times, kMost));
    counts_.assign(id, now);
    return now;
  }
  void remove(int64_t id) override { counts_.erase(id); }
  size_t bytes() const override { return counts_.bytes(); }

  Saved save() const override {
    auto entries = counts_.entries();
    std::sort(entries.begin(), entries.end());
    Saved saved;
    for (const auto& [id, count] : entries) {
      saved.ids.push_back(id);
      saved.counts.push_back(static_cast<int64_t>(count));
    }
    return saved;
  }
  void load(const Saved& saved) override {
    if (saved.ids.size() != saved.counts.size()) throw std::invalid_argument("exact counts need an id for each count");
    counts_.clear();
    for (size_t i = 0; i < saved.ids.size(); ++i) add(saved.ids[i], saved.counts[i]);
  }

 private:
  IdMap counts_;
};

class CountMinSketch : public OccurrenceCounts {
 public:
  CountMinSketch(int64_t width, int64_t depth, uint64_t seed)
      : width_(static_cast<size_t>(width)), seed_(seed), counters_(static_cast<size_t>(width * depth), 0) {}

  int64_t add(int64_t id, int64_t times) override {
    constexpr int64_t kMost = std::numeric_limits<uint16_t>::max();
    int64_t least = kMost;
    for_counters(id, [&](uint16_t& counter) { least = std::min<int64_t>(least, counter); });
    const int64_t now = std::min(least + times, kMost);
    for_counters(id, [&](uint16_t& counter) { counter = std::max(counter, static_cast<uint16_t>(now)); });
    return now;
  }
  // What other ids share cannot be taken back.
  void remove(int64_t) override {}
  size_t bytes() const override { return counters_.size() * sizeof(uint16_t); }

  Saved save() const override { return {{}, {counters_.begin(), counters_.end()}}; }
  void load(const Saved& saved) override {
    if (saved.counts.size() != counters_.size())
      throw std::invalid_argument("the sketch has another number of counters");
    std::transform(saved.counts.begin(), saved.counts.end(), counters_.begin(), [](int64_t count) {
      return static_cast<uint16_t>(std::min<int64_t>(count, std::numeric_limits<uint16_t>::max()));
    });
  }

 private:
  template <typename Body>
  void for_counters(int64_t id, Body body) {
    uint64_t row = 0;
    for (size_t first = 0; first < counters_.size(); first += width_) {
      body(counters_[first + mix64(seed_ + row++, static_cast<uint64_t>(id)) % width_]);
    }
  }

  size_t width_;
  uint64_t seed_;
  std::vector<uint16_t> counters_;
};

}  // namespace

std::unique_ptr<OccurrenceCounts> OccurrenceCounts::exact() { return std::make_unique<ExactCounts>(); }

std::unique_ptr<OccurrenceCounts> OccurrenceCounts::sketch(int64_t width, int64_t depth, uint64_t seed) {
  return std::make_unique<CountMinSketch>(width, depth, seed);
}

}  // namespace hybrid_torchrec
