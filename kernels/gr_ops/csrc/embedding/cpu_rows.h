#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "embedding/checks.h"
#include "row_math/row_kernels.h"

// What the CPU's forward and backward passes share.
namespace gr_ops::embedding {

// Calls body(const Row*) for the type in which a tensor holds its rows.
template <typename Body>
void with_row_type(at::ScalarType dtype, Body body) {
  if (dtype == at::kFloat) {
    body(static_cast<const float*>(nullptr));
  } else if (dtype == at::kHalf) {
    body(static_cast<const rows::Half*>(nullptr));
  } else {
    body(static_cast<const rows::Bfloat16*>(nullptr));
  }
}

// Calls body(const Index*) for int32 or int64.
template <typename Body>
void with_index_type(at::ScalarType dtype, Body body) {
  if (dtype == at::kInt) {
    body(static_cast<const int32_t*>(nullptr));
  } else {
    body(static_cast<const int64_t*>(nullptr));
  }
}

template <typename Row>
Row* row_data(const at::Tensor& tensor) {
  return static_cast<Row*>(tensor.mutable_data_ptr());
}

// The first of several threads' bad positions; threads meet here only when there is one.
class FirstFault {
 public:
  void report(int64_t position) {
    int64_t seen = position_.load();
    while (position < seen && !position_.compare_exchange_weak(seen, position)) {
    }
  }
  bool found() const { return position_.load() != none; }
  int64_t position() const { return position_.load(); }

 private:
  static constexpr int64_t none = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> position_{none};
};

// Shares of [0, bags) with about the same number of indices and bags together; offsets has bags + 1 entries.
inline int64_t share_start(const int64_t* offsets, int64_t bags, int64_t share, int64_t shares) {
  const int64_t total = offsets[bags] + bags;
  const int64_t target = total / shares * share + total % shares * share / shares;
  int64_t low = 0;
  int64_t high = bags;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (offsets[middle] + middle < target) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return share == shares ? bags : low;
}

// Work below this many row elements is not worth a second thread.
constexpr int64_t kSerialElements = 64 * 1024;

// body(first, end) over bags, in parallel where it pays.
template <typename Body>
void for_bags(const int64_t* offsets, int64_t bags, int64_t width, Body body) {
  const int64_t threads = (offsets[bags] + bags) * width < kSerialElements ? 1 : at::get_num_threads();
  const int64_t shares = threads == 1 ? 1 : threads * 4;
  at::parallel_for(0, shares, 1, [&](int64_t from, int64_t to) {
    for (int64_t share = from; share < to; ++share) {
      const int64_t first = share_start(offsets, bags, share, shares);
      const int64_t end = share_start(offsets, bags, share + 1, shares);
      if (first < end) body(first, end);
    }
  });
}

}  // namespace gr_ops::embedding
