// Segments: stretches of a head's keys that one core takes in ascending order, each with a slab of sums for the queries
// that see it. They follow from shapes and offsets alone, so that sums do not depend on the number of cores; long
// sequences have more of them, so that none is more than its share of the work.
#pragma once
#include "hstu_sequences.h"

namespace hstu {

class Segments {
 public:
  __aicore__ inline void Init(const HstuTilingData& tiling, const Sequences& sequences) {
    tiling_ = &tiling;
    int64_t cells = 0;
    Sequence sequence;
    sequences.Rewind(sequence);
    while (sequences.Next(sequence)) {
      cells += sequence.queries * sequence.keys;
    }
    unit_ = Most((cells + tiling.segments - 1) / tiling.segments, 1);
    Rewind();
  }
  __aicore__ inline void Rewind() {
    next_ = 0;
    spare_ = tiling_->slabRows - tiling_->queryRows;
  }
  // The next sequence; `spare_` keeps every slab in the workspace, however long a sequence is.
  __aicore__ inline void Open(const Sequence& sequence) {
    const int64_t queries = Most(sequence.queries, 1);
    const int64_t wanted = Within((sequence.queries * sequence.keys + unit_ - 1) / unit_, 1, 1 + spare_ / queries);
    const int64_t unit = tiling_->blockRows;
    rows_ = Most((sequence.keys + wanted - 1) / wanted, HSTU_SEGMENT_BLOCKS * unit);
    rows_ = (rows_ + unit - 1) / unit * unit;
    count_ = Most((sequence.keys + rows_ - 1) / rows_, 1);
    slab_ = next_;
    next_ += count_ * sequence.queries;
    spare_ -= (count_ - 1) * sequence.queries;
  }

  __aicore__ inline int64_t Count() const { return count_; }
  // Keys [Begin(i), Begin(i + 1)), cut at the sequence's end.
  __aicore__ inline int64_t Begin(int64_t segment) const { return segment * rows_; }
  __aicore__ inline int64_t Of(int64_t key) const { return key / rows_; }
  // First row of a segment's slab among those of a head.
  __aicore__ inline int64_t Slab(const Sequence& sequence, int64_t segment) const {
    return slab_ + segment * sequence.queries;
  }

 private:
  const HstuTilingData* tiling_;
  int64_t unit_;  // cells of a segment
  int64_t next_;
  int64_t spare_;
  int64_t rows_;
  int64_t count_;
  int64_t slab_;
};

}  // namespace hstu
