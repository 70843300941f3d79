#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace row_math {

// A row of the concatenated tables, and what contributes to its gradient.
template <typename Key>
struct Contribution {
  Key key;
  uint32_t source;
};

// Stable radix sort by key, of which `bits` are used. Every thread counts and moves a part of its own, so the order
// is the same for any number of threads.
template <typename Key>
class RadixSort {
 public:
  using Record = Contribution<Key>;

  // Sorts `records`; the result is the returned one of the two vectors.
  static std::vector<Record>& run(std::vector<Record>& records, std::vector<Record>& scratch, int64_t bits) {
    scratch.resize(records.size());
    // Few records do not pay for many counters.
    const int64_t digit = records.size() < kFewRecords ? 8 : 11;
    const int64_t passes = (bits + digit - 1) / digit;
    std::vector<Record>* from = &records;
    std::vector<Record>* to = &scratch;
    for (int64_t pass = 0; pass < passes; ++pass) {
      const int64_t low = bits * pass / passes;
      const int64_t high = bits * (pass + 1) / passes;
      move(*from, *to, low, high - low);
      std::swap(from, to);
    }
    return *from;
  }

 private:
  static constexpr size_t kFewRecords = 8192;
  static constexpr int64_t kMinPart = 8 * 1024;

  // body(bucket, first, end) for stretches of [first, end) that go to one bucket: of a row that is half of a batch
  // there are long ones, and one by one each record would wait for the counter that the one before has left.
  template <typename Body>
  static void in_runs(const std::vector<Record>& from, int64_t first, int64_t end, int64_t shift, Key mask, Body body) {
    while (first < end) {
      const Key bucket = from[static_cast<size_t>(first)].key >> shift & mask;
      int64_t stop = first + 1;
      while (stop < end && (from[static_cast<size_t>(stop)].key >> shift & mask) == bucket) ++stop;
      body(static_cast<size_t>(bucket), first, stop);
      first = stop;
    }
  }

  static void move(const std::vector<Record>& from, std::vector<Record>& to, int64_t shift, int64_t digit) {
    const auto size = static_cast<int64_t>(from.size());
    const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), size / kMinPart));
    const size_t buckets = size_t{1} << digit;
    const Key mask = static_cast<Key>(buckets - 1);
    std::vector<uint32_t> starts(static_cast<size_t>(parts) * buckets, 0);
    const auto part_of = [&](int64_t part) { return size * part / parts; };
    at::parallel_for(0, parts, 1, [&](int64_t first, int64_t end) {
      for (int64_t part = first; part < end; ++part) {
        uint32_t* counts = starts.data() + static_cast<size_t>(part) * buckets;
        in_runs(from, part_of(part), part_of(part + 1), shift, mask, [&](size_t bucket, int64_t first, int64_t end) {
          counts[bucket] += static_cast<uint32_t>(end - first);
        });
      }
    });
    uint32_t total = 0;
    for (size_t bucket = 0; bucket < buckets; ++bucket) {
      for (size_t part = 0; part < static_cast<size_t>(parts); ++part) {
        const uint32_t count = starts[part * buckets + bucket];
        starts[part * buckets + bucket] = total;
        total += count;
      }
    }
    at::parallel_for(0, parts, 1, [&](int64_t first, int64_t end) {
      for (int64_t part = first; part < end; ++part) {
        uint32_t* next = starts.data() + static_cast<size_t>(part) * buckets;
        in_runs(from, part_of(part), part_of(part + 1), shift, mask, [&](size_t bucket, int64_t first, int64_t end) {
          uint32_t at = next[bucket];
          for (int64_t i = first; i < end; ++i) to[at++] = from[static_cast<size_t>(i)];
          next[bucket] = at;
        });
      }
    });
  }
};

}  // namespace row_math
