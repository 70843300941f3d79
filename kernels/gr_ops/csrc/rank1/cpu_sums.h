#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/parallel.h"
#include "common/wide.h"
#include "rank1/checks.h"

// target[j] = sum of grad[i] over all i with index[i] == j, in the order of i whatever the number of threads.
// Several threads first bring together what falls into a range of target, each for a part of index, and then sum one
// range after the other: each range is one thread's. Without that every thread would read the whole index, and guess
// for each entry whether it is its own.
namespace gr_ops::cpu {

constexpr int64_t kMostParts = 16;
constexpr int64_t kRanges = 32;            // cursors that a thread writes at; the next of a single one would have to wait
constexpr int64_t kSharedEntries = 65536;  // fewer are one thread's

template <typename T, typename Index>
class SumByIndex {
 public:
  SumByIndex(const char* op, const at::Tensor& grad, const at::Tensor& index, T* target, int64_t length)
      : op_(op),
        grad_(grad.const_data_ptr<T>()),
        index_(index.const_data_ptr<Index>()),
        count_(index.numel()),
        target_(target),
        length_(length) {}

  void run() const {
    const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
    if (threads > 1 && count_ >= kSharedEntries && length_ < std::numeric_limits<uint32_t>::max()) {
      by_ranges(std::min(threads, kMostParts));
    } else {
      with_sums(0, length_, [&](Sum* sums) {
        for_entries(0, count_, [=](int64_t element, T value) { sums[element] += static_cast<Sum>(value); });
      });
    }
  }

 private:
  using Sum = Wide<T>;
  struct Entry {
    uint32_t element;
    T value;
  };

  // Entries are checked some at a time, and then used while they are in the cache.
  template <typename Body>
  void for_entries(int64_t first, int64_t end, const Body& body) const {
    constexpr int64_t block = 1024;
    for (int64_t start = first; start < end; start += block) {
      const int64_t stop = std::min(start + block, end);
      check_entries_in_range(op_, index_, start, stop, length_);
      for (int64_t i = start; i < stop; ++i) body(static_cast<int64_t>(index_[i]), grad_[i]);
    }
  }

  // Where the result is narrower than its sums, they are kept apart and rounded once.
  template <typename Body>
  void with_sums(int64_t first, int64_t end, const Body& body) const {
    if constexpr (std::is_same_v<Sum, T>) {
      std::fill(target_ + first, target_ + end, T(0));
      body(target_ + first);
    } else {
      std::vector<Sum> sums(static_cast<size_t>(end - first));
      body(sums.data());
      std::transform(sums.begin(), sums.end(), target_ + first, [](Sum sum) { return static_cast<T>(sum); });
    }
  }

  int64_t part_start(int64_t part, int64_t parts) const { return count_ / parts * part + count_ % parts * part / parts; }

  // Entries of range r: those of part p start at starts[p][r], which is where those of the part before end.
  void by_ranges(int64_t parts) const {
    int shift = 0;
    while (((length_ - 1) >> shift) >= kRanges) ++shift;
    std::vector<std::array<int64_t, kRanges>> starts(static_cast<size_t>(parts + 1));
    at::parallel_for(0, parts, 1, [&](int64_t first, int64_t end) {
      for (int64_t part = first; part < end; ++part) {
        std::array<int64_t, kRanges> counts{};
        for_entries(part_start(part, parts), part_start(part + 1, parts),
                    [&](int64_t element, T) { ++counts[static_cast<size_t>(element >> shift)]; });
        starts[static_cast<size_t>(part)] = counts;
      }
    });
    int64_t next = 0;
    for (size_t range = 0; range < kRanges; ++range) {
      for (auto& part : starts) next += std::exchange(part[range], next);
    }
    const at::Tensor memory = at::empty({count_ * static_cast<int64_t>(sizeof(Entry))}, at::kByte);
    auto* entries = static_cast<Entry*>(memory.mutable_data_ptr());
    at::parallel_for(0, parts, 1, [&](int64_t first, int64_t end) {
      for (int64_t part = first; part < end; ++part) {
        auto cursors = starts[static_cast<size_t>(part)];
        for (int64_t i = part_start(part, parts); i < part_start(part + 1, parts); ++i) {
          entries[cursors[static_cast<size_t>(index_[i] >> shift)]++] = {static_cast<uint32_t>(index_[i]), grad_[i]};
        }
      }
    });
    std::atomic<size_t> following{0};
    at::parallel_for(0, parts, 1, [&](int64_t, int64_t) {
      for (size_t range = following++; range < kRanges; range = following++) {
        const int64_t low = std::min(static_cast<int64_t>(range) << shift, length_);
        const int64_t high = std::min(static_cast<int64_t>(range + 1) << shift, length_);
        with_sums(low, high, [&](Sum* sums) {
          for (int64_t e = starts.front()[range]; e < starts.back()[range]; ++e) {
            sums[entries[e].element - low] += static_cast<Sum>(entries[e].value);
          }
        });
      }
    });
  }

  const char* op_;
  const T* grad_;
  const Index* index_;
  int64_t count_;
  T* target_;
  int64_t length_;
};

template <typename T, typename Index>
void sum_by_index(const char* op, const at::Tensor& grad, const at::Tensor& index, T* target, int64_t length) {
  SumByIndex<T, Index>(op, grad, index, target, length).run();
}

}  // namespace gr_ops::cpu
