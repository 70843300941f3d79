#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gr_ops::embedding {

// Which rows occur more than once among the indices of a call, in two bits for each row: 0 never, 1 once, 3 more often.
// Of many more rows than indices, several share their bits: then a row may pass for repeated that is not, but never the
// other way round. Every thread marks a part of the indices in bits of its own, so the outcome is the same for any
// number of threads.
class Marks {
 public:
  // For keys in [0, rows) of `count` indices.
  void prepare(int64_t rows, int64_t count, int64_t threads) {
    int64_t slots = std::max<int64_t>(rows, 1);  // tables may be without rows: no index is valid then
    multiplier_ = 1;
    shift_ = 0;
    if (rows / kMostSlots > count) {
      int64_t bits = 3;
      while ((int64_t{1} << bits) < kFewestSlots * count) ++bits;
      slots = int64_t{1} << bits;
      multiplier_ = 0x9E3779B97F4A7C15u;  // 2^64 over the golden ratio: neighbours fall far apart
      shift_ = 64 - static_cast<unsigned>(bits);
    }
    const int64_t words = slots / kSlotsOfWord + 2;  // the last one is nobody's
    stride_ = static_cast<size_t>((words + kLine - 1) / kLine * kLine);
    parts_ = std::max<int64_t>(1, std::min({threads, count / kMinPart, kMostSlotsOfAll * count / slots}));
    const size_t size = static_cast<size_t>(parts_) * stride_;
    if (words_.size() < size) words_.resize(size);
  }

  int64_t parts() const { return parts_; }
  void clear(int64_t part) { std::fill_n(part_data(part), stride_, 0u); }

  // Marks the rows `indices` of a table whose row 0 has the key `first`. What is marked already is not written again:
  // the next index of a row that is half of a batch would have to wait for that.
  template <typename Index>
  void add(int64_t part, int64_t first, const Index* indices, int64_t count) {
    uint32_t* words = part_data(part);
    const uint64_t multiplier = multiplier_;
    const unsigned shift = shift_;
    const uint64_t nobody = stride_ - 1;
    for (int64_t k = 0; k < count; ++k) {
      const uint64_t slot = static_cast<uint64_t>(first + static_cast<int64_t>(indices[k])) * multiplier >> shift;
      const auto bit = static_cast<unsigned>(slot % kSlotsOfWord * 2);
      const uint64_t at = slot / kSlotsOfWord;
      const uint32_t word = words[at];
      const uint64_t marked = 0 - static_cast<uint64_t>(word >> (bit + 1) & 1u);  // no branch: nobody can foresee it
      words[at ^ ((at ^ nobody) & marked)] = word | (1u | (word >> bit & 1u) << 1) << bit;
    }
  }

  // Brings the parts together; after it, a view tells.
  void merge() {
    if (parts_ == 1) return;
    at::parallel_for(0, static_cast<int64_t>(stride_), kMergeGrain, [&](int64_t first, int64_t end) {
      uint32_t* all = words_.data();
      for (int64_t part = 1; part < parts_; ++part) {
        const uint32_t* more = part_data(part);
        for (int64_t i = first; i < end; ++i) all[i] |= more[i] | (all[i] & more[i] & 0x55555555u) << 1;
      }
    });
  }

  // The marks of all parts; valid until the next call of prepare.
  struct View {
    const uint32_t* words;
    uint64_t multiplier;
    unsigned shift;

    // 1 for a row that occurs more than once, else 0.
    uint32_t repeated(int64_t key) const {
      const uint64_t slot = static_cast<uint64_t>(key) * multiplier >> shift;
      return words[slot / kSlotsOfWord] >> (slot % kSlotsOfWord * 2 + 1) & 1u;
    }
  };
  View view() const { return {words_.data(), multiplier_, shift_}; }

 private:
  static constexpr int64_t kSlotsOfWord = 16;
  static constexpr int64_t kLine = 16;             // words; parts share no cache line
  static constexpr int64_t kMostSlots = 32;        // for each index, one slot for each row
  static constexpr int64_t kFewestSlots = 8;       // for each index, where rows share slots
  static constexpr int64_t kMostSlotsOfAll = 128;  // parts together: 32 bytes for each index
  static constexpr int64_t kMinPart = 4 * 1024;
  static constexpr int64_t kMergeGrain = 8 * 1024;

  uint32_t* part_data(int64_t part) { return words_.data() + static_cast<size_t>(part) * stride_; }

  uint64_t multiplier_ = 1;
  unsigned shift_ = 0;
  size_t stride_ = 0;
  int64_t parts_ = 1;
  std::vector<uint32_t> words_;
};

}  // namespace gr_ops::embedding
