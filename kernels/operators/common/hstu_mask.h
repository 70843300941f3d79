// Which keys a query sees. Every row of every built-in mask is at most two stretches of columns, so a
// mask is never materialised: tiles are classified by the hull of their rows, and edges are cut row by row.
#pragma once
#include "hstu_tiling.h"

namespace hstu {

// Visible columns [a0, a1) and [b0, b1), a1 <= b0; empty stretches have equal ends.
struct RowView {
  int64_t a0;
  int64_t a1;
  int64_t b0;
  int64_t b1;
};

// Over the rows of a block: the hulls of both stretches, and the columns that every row sees.
struct BlockView {
  RowView hull;
  int64_t full0;
  int64_t full1;

  __aicore__ inline bool Sees(int64_t from, int64_t to) const {
    return (from < hull.a1 && to > hull.a0) || (from < hull.b1 && to > hull.b0);
  }
  __aicore__ inline bool SeesAll(int64_t from, int64_t to) const { return from >= full0 && to <= full1; }
  __aicore__ inline int64_t First() const {
    return hull.a0 < hull.a1 && (hull.b0 >= hull.b1 || hull.a0 < hull.b0) ? hull.a0 : hull.b0;
  }
  __aicore__ inline int64_t Last() const { return hull.a1 > hull.b1 ? hull.a1 : hull.b1; }
};

__aicore__ inline int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
__aicore__ inline int64_t Most(int64_t a, int64_t b) { return a > b ? a : b; }
__aicore__ inline int64_t Within(int64_t value, int64_t low, int64_t high) { return Most(low, Least(value, high)); }

class Mask {
 public:
  __aicore__ inline void Init(const HstuTilingData& tiling) {
    type_ = tiling.maskType;
    group_ = tiling.groupSize > 0 ? tiling.groupSize : 1;
    window_ = tiling.maxAttnLen;
    fullTail_ = tiling.minFullAttnSeqLen;
    reach_ = tiling.windowSize;
  }

  // [context | history | targets] of `length` keys.
  __aicore__ inline void SetSequence(int64_t length, int64_t context, int64_t targets) {
    length_ = length;
    history_ = length - Within(targets, 0, length);
    context_ = Within(context, 0, history_);
    // Positions count the context as one step where there is a window over the history.
    shift_ = context_ > 0 ? context_ - 1 : 0;
  }

  // Keys before the targets.
  __aicore__ inline int64_t History() const { return history_; }

  __aicore__ inline RowView Row(int64_t row) const {
    if (type_ == HSTU_UPPER) {
      return One(row, length_);
    }
    if (type_ != HSTU_CAUSAL) {
      return One(0, length_);
    }
    if (row < context_) {
      return One(0, history_);
    }
    const int64_t first = Most(FirstInWindow(row), FirstInReach(row));
    if (row < history_) {
      return One(first, row + 1);
    }
    const int64_t groupStart = history_ + (row - history_) / group_ * group_;
    RowView view = One(first, history_);
    view.b0 = Most(groupStart, FirstInReach(row));
    view.b1 = row + 1;
    return view;
  }

  // Rows [from, to), from < to. The ends of stretches rise monotonously inside each part of the sequence.
  __aicore__ inline BlockView Block(int64_t from, int64_t to) const {
    BlockView block;
    block.hull.a0 = length_;
    block.hull.a1 = 0;
    block.hull.b0 = length_;
    block.hull.b1 = 0;
    block.full0 = 0;
    block.full1 = length_;
    const int64_t fullStart = fullTail_ > 0 ? Within(history_ - fullTail_, context_, history_) : history_;
    Extend(block, from, Least(to, context_));
    Extend(block, Most(from, context_), Least(to, fullStart));
    Extend(block, Most(from, fullStart), Least(to, history_));
    Extend(block, Most(from, history_), to);
    return block;
  }

 private:
  __aicore__ inline RowView One(int64_t from, int64_t to) const {
    RowView view;
    view.a0 = from;
    view.a1 = Most(from, to);
    view.b0 = length_;
    view.b1 = length_;
    return view;
  }
  __aicore__ inline int64_t FirstInWindow(int64_t row) const {
    if (window_ <= 0) {
      return 0;
    }
    const int64_t steps = history_ - shift_;  // the step of the targets
    const int64_t step = Least(row - shift_, steps);
    if (fullTail_ > 0 && step >= steps - fullTail_) {
      return 0;
    }
    const int64_t first = step - window_;
    return first <= 0 ? 0 : first + shift_;
  }
  __aicore__ inline int64_t FirstInReach(int64_t row) const { return reach_ < 0 ? 0 : Most(0, row - reach_); }
  __aicore__ inline void Extend(BlockView& block, int64_t from, int64_t to) const {
    if (from >= to) {
      return;
    }
    Join(block, Row(from));
    Join(block, Row(to - 1));
  }
  __aicore__ inline static void Join(BlockView& block, const RowView& row) {
    if (row.a0 < row.a1) {
      block.hull.a0 = Least(block.hull.a0, row.a0);
      block.hull.a1 = Most(block.hull.a1, row.a1);
    }
    if (row.b0 < row.b1) {
      block.hull.b0 = Least(block.hull.b0, row.b0);
      block.hull.b1 = Most(block.hull.b1, row.b1);
    }
    block.full0 = Most(block.full0, row.a0);
    block.full1 = Least(block.full1, row.a1);
  }

  uint32_t type_;
  int64_t group_;
  int64_t window_;
  int64_t fullTail_;
  int64_t reach_;
  int64_t length_;
  int64_t context_;
  int64_t history_;
  int64_t shift_;
};

}  // namespace hstu
