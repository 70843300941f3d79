#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hybrid_torchrec {

class Index;

// A row as it was at some moment; the first victim is the least.
struct Aged {
  int64_t last_step;
  int64_t id;
  int64_t slot;

  bool operator<(const Aged& other) const {
    return last_step != other.last_step ? last_step < other.last_step : id < other.id;
  }
  bool operator==(const Aged& other) const {
    return last_step == other.last_step && id == other.id && slot == other.slot;
  }
};

// The oldest rows of an index, looked for once and given out in several calls. A row that was seen or erased meanwhile
// is passed over, and one that became as old as these takes its place among them, so each call gives what looking at
// all rows would.
class Ageing {
 public:
  // `oldest` ascends; all other rows that are less than the last of them are among `others`.
  void restart(std::vector<Aged> oldest, const std::vector<Aged>& others);
  void clear();
  bool knows_none() const { return rows_.empty(); }
  // A row became this.
  void note(const Aged& row) {
    if (rows_.empty() || !(row < last_)) return;
    late_.push_back(row);
    if (late_.size() > most_late_) clear();
  }
  // Rows that were seen in `step` may be any.
  void note_step(int64_t step) {
    if (!rows_.empty() && step <= last_.last_step) clear();
  }
  // Slots of the oldest `count` rows that are not safe; fewer where it knows no more. They stay until they are erased.
  std::vector<int64_t> next(const Index& index, size_t count, const std::vector<bool>& safe);
  size_t bytes() const { return (rows_.capacity() + late_.capacity()) * sizeof(Aged); }

 private:
  static constexpr size_t kAhead = 48;  // rows between the fetch of a line and its use
  static constexpr size_t kFewest = 1024;

  void take_in(const Index& index, const std::vector<bool>& safe);

  std::vector<Aged> rows_;  // ascending, from next_ on
  size_t next_ = 0;
  std::vector<Aged> late_;
  size_t most_late_ = 0;  // more of them are not worth their memory
  Aged last_{};
};

}  // namespace hybrid_torchrec
