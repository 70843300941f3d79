// Reads the offsets of K nested jagged levels. Any content is safe: what is read is clamped to the rows that exist.
#pragma once
#include "kernel_operator.h"
#include "kernel_operator_list_tensor_intf.h"

#include "jagged_tiling.h"

namespace jagged {

struct Span {
  int64_t start;
  int64_t end;
};

template <typename Offset>
class OffsetTree {
 public:
  __aicore__ inline void Init(GM_ADDR list, const JaggedTilingData& tiling) {
    AscendC::ListTensorDesc tensors(reinterpret_cast<__gm__ void*>(list));
    dims_ = tiling.dims;
    for (uint32_t k = 0; k < dims_; ++k) {
      nodes_[k] = tiling.nodes[k];
      rows_[k] = k + 1 < dims_ ? tiling.nodes[k + 1] : tiling.valueRows;
      levels_[k].SetGlobalBuffer(tensors.GetDataPtr<Offset>(k), static_cast<uint64_t>(nodes_[k]) + 1);
    }
  }

  __aicore__ inline int64_t Nodes(uint32_t level) const { return nodes_[level]; }

  // Entry `node` of a level as it is.
  __aicore__ inline int64_t Given(uint32_t level, int64_t node) const {
    return static_cast<int64_t>(levels_[level].GetValue(static_cast<uint64_t>(node)));
  }

  // Entry `node` of a level, between 0 and the entries of the level below.
  __aicore__ inline int64_t At(uint32_t level, int64_t node) const {
    const int64_t value = Given(level, node);
    return value < 0 ? 0 : (value > rows_[level] ? rows_[level] : value);
  }

  __aicore__ inline Span Rows(uint32_t level, int64_t node) const {
    Span span;
    span.start = At(level, node);
    span.end = At(level, node + 1);
    if (span.end < span.start) {
      span.end = span.start;
    }
    return span;
  }

  // The last node whose rows start at or before `row`; -1 when there is none.
  __aicore__ inline int64_t Find(uint32_t level, int64_t row) const {
    int64_t low = 0;
    int64_t high = nodes_[level];
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (At(level, middle) <= row) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low - 1;
  }

 private:
  uint32_t dims_;
  int64_t nodes_[JAGGED_MAX_DIMS];
  int64_t rows_[JAGGED_MAX_DIMS];
  AscendC::GlobalTensor<Offset> levels_[JAGGED_MAX_DIMS];
};

}  // namespace jagged
