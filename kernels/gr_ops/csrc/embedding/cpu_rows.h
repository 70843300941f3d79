#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "embedding/checks.h"
#include "row_math/bags.h"
#include "row_math/row_kernels.h"
#include "row_math/row_types.h"

// What the CPU's forward and backward passes share.
namespace gr_ops::embedding {

using row_math::for_bags;
using row_math::row_data;
using row_math::with_row_type;

// Calls body(const Index*) for int32 or int64.
template <typename Body>
void with_index_type(at::ScalarType dtype, Body body) {
  if (dtype == at::kInt) {
    body(static_cast<const int32_t*>(nullptr));
  } else {
    body(static_cast<const int64_t*>(nullptr));
  }
}

// The first of several threads' bad positions; threads meet here only when there is one.
class FirstFault {
 public:
  void report(int64_t position) {
    int64_t seen = position_.load();
    while (position < seen && !position_.compare_exchange_weak(seen, position)) {
    }
  }
  bool found() const { return position_.load() != kNoFault; }
  int64_t position() const { return position_.load(); }

 private:
  static constexpr int64_t kNoFault = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> position_{kNoFault};
};

}  // namespace gr_ops::embedding
