#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "jagged/checks.h"

namespace gr_ops {

// K levels of checked offsets on the CPU. A node of level k is a row of level k - 1; level 0 has one node per batch.
class OffsetTree {
 public:
  OffsetTree(at::TensorList offsets, at::IntArrayRef max_lengths) : dims_(offsets.size()) {
    for (size_t k = 0; k < dims_; ++k) {
      kept_.push_back(offsets[k].to(at::kLong).contiguous());
      levels_[k] = kept_[k].const_data_ptr<int64_t>();
      nodes_[k] = kept_[k].numel() - 1;
      lengths_[k] = max_lengths[k];
    }
  }

  int64_t nodes() const { return nodes_[dims_ - 1]; }         // of the last level
  const int64_t* rows() const { return levels_[dims_ - 1]; }  // where they start
  int64_t max_length() const { return lengths_[dims_ - 1]; }  // S_K: rows of a line of the dense tensor

  // Nodes of ascending lines (b, s1..s_{K-1}) of the dense tensor, one after the other. It counts the steps up: a
  // division for each line takes as long as moving half a kilobyte.
  class NodeWalk {
   public:
    NodeWalk(const OffsetTree& tree, int64_t line) : tree_(tree) {
      for (size_t k = tree_.dims_ - 1; k > 0; --k) {
        steps_[k - 1] = line % tree_.lengths_[k - 1];
        line /= tree_.lengths_[k - 1];
      }
      batch_ = line;
    }

    // The node behind the line at hand, -1 for padding; the next line is at hand then.
    int64_t next() {
      int64_t node = batch_;
      for (size_t k = 0; node >= 0 && k + 1 < tree_.dims_; ++k) {
        const int64_t first = tree_.levels_[k][node];
        node = steps_[k] < tree_.levels_[k][node + 1] - first ? first + steps_[k] : -1;
      }
      size_t k = tree_.dims_ - 1;
      for (; k > 0 && ++steps_[k - 1] == tree_.lengths_[k - 1]; --k) steps_[k - 1] = 0;
      if (k == 0) ++batch_;
      return node;
    }

   private:
    const OffsetTree& tree_;
    int64_t batch_;
    int64_t steps_[kMaxJaggedDims];
  };

  // Lines of ascending nodes, one after the other. A node has no line if a level is longer than its padded length.
  class LineWalk {
   public:
    explicit LineWalk(const OffsetTree& tree) : tree_(tree) {}

    int64_t line_of(int64_t node) {
      int64_t line = 0;
      int64_t stride = 1;
      for (size_t k = tree_.dims_ - 1; k > 0; --k) {
        const int64_t* level = tree_.levels_[k - 1];
        int64_t& parent = parents_[k - 1];
        if (parent < 0) {
          parent = std::upper_bound(level, level + tree_.nodes_[k - 1] + 1, node) - level - 1;
        }
        if (parent < 0) return -1;  // the first offset is above zero
        while (parent + 1 < tree_.nodes_[k - 1] && level[parent + 1] <= node) ++parent;
        const int64_t step = node - level[parent];
        if (step >= tree_.lengths_[k - 1] || node >= level[parent + 1]) return -1;
        line += step * stride;
        stride *= tree_.lengths_[k - 1];
        node = parent;
      }
      return line + node * stride;
    }

   private:
    const OffsetTree& tree_;
    int64_t parents_[kMaxJaggedDims] = {-1, -1, -1, -1, -1};
  };

 private:
  size_t dims_;
  std::vector<at::Tensor> kept_;
  const int64_t* levels_[kMaxJaggedDims];
  int64_t nodes_[kMaxJaggedDims];
  int64_t lengths_[kMaxJaggedDims];
};

}  // namespace gr_ops
