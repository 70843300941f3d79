// Segments: stretches of a head's keys that one block takes in ascending order, each with a slab of sums for the
// queries that see it. They follow from shapes and offsets alone, so that sums do not depend on the number of cores;
// long sequences have more of them, so that none is more than its share of the work. Under a causal mask later keys are
// seen by fewer queries: there segments grow, so that all hold as many cells.
#pragma once
#include "hstu_sequences.h"

namespace hstu {

constexpr int64_t SHARES = 24;       // of the work of many short heads: the blocks of a 910B2
constexpr int64_t SHARE_BLOCKS = 2;  // of a segment where a share ends

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
    cells_ = cells;
    unit_ = Most((cells + tiling.segments - 1) / tiling.segments, 1);
    Rewind();
  }
  __aicore__ inline void Rewind() {
    before_ = 0;
    own_ = 0;
    next_ = 0;
    spare_ = tiling_->slabRows - tiling_->queryRows;
  }
  // The next sequence; `spare_` keeps every slab in the workspace, however long a sequence is.
  __aicore__ inline void Open(const Sequence& sequence) {
    const int64_t queries = Most(sequence.queries, 1);
    before_ += own_;
    own_ = sequence.queries * sequence.keys;
    const int64_t wanted = Within((own_ + unit_ - 1) / unit_, 1, 1 + spare_ / queries);
    blocks_ = Most((sequence.keys + tiling_->blockRows - 1) / tiling_->blockRows, 1);
    shares_ = wanted == 2 && own_ * SHARES <= cells_ * tiling_->heads;
    if (shares_) {
      count_ = 2;
    } else {
      Cut(wanted);
    }
    slab_ = next_;
    next_ += count_ * sequence.queries;
    spare_ -= (count_ - 1) * sequence.queries;
  }

  // The sequence's next head. Where its heads are less than a share of the work, two segments are made where a share
  // ends, of the others one is empty: so few heads are cut, and their sums take little room.
  __aicore__ inline void SetHead(int64_t head) {
    if (!shares_) {
      return;
    }
    const int64_t start = before_ * tiling_->heads + own_ * head;
    const int64_t share = Most(cells_ * tiling_->heads / SHARES, 1);
    const int64_t cut = BlockAt((start / share + 1) * share - start, own_);
    begins_[1] = cut >= SHARE_BLOCKS && blocks_ - cut >= SHARE_BLOCKS ? cut : blocks_;
    begins_[0] = 0;
    begins_[2] = blocks_;
  }

  __aicore__ inline int64_t Count() const { return count_; }
  // Keys [Begin(i), Begin(i + 1)), cut at the sequence's end.
  __aicore__ inline int64_t Begin(int64_t segment) const { return begins_[segment] * tiling_->blockRows; }
  __aicore__ inline int64_t Of(int64_t key) const {
    int64_t segment = count_ - 1;
    while (Begin(segment) > key) {
      --segment;
    }
    return segment;
  }
  // First row of a segment's slab among those of a head.
  __aicore__ inline int64_t Slab(const Sequence& sequence, int64_t segment) const {
    return slab_ + segment * sequence.queries;
  }

 private:
  // Cuts a head's keys into `wanted` segments of as many cells, fewer where they would be too short.
  __aicore__ inline void Cut(int64_t wanted) {
    count_ = 1;
    begins_[0] = 0;
    for (int64_t part = 1; part < wanted; ++part) {
      const int64_t block = Most(BlockAt(part, wanted), begins_[count_ - 1] + HSTU_SEGMENT_BLOCKS);
      if (block < blocks_) {
        begins_[count_++] = block;
      }
    }
    begins_[count_] = blocks_;
  }
  // The first block of keys with `part` of `whole` of a head's cells before it.
  __aicore__ inline int64_t BlockAt(int64_t part, int64_t whole) const {
    const bool falls = tiling_->maskType == HSTU_CAUSAL && tiling_->maxAttnLen == 0 && tiling_->windowSize < 0;
    const float all = falls ? 0.5f * static_cast<float>(blocks_ * (blocks_ + 1)) : static_cast<float>(blocks_);
    const float wanted = all * (static_cast<float>(part) / static_cast<float>(whole));
    float cells = 0.0f;
    int64_t block = 0;
    for (; block < blocks_ && cells < wanted; ++block) {
      cells += falls ? static_cast<float>(blocks_ - block) : 1.0f;
    }
    return block;
  }

  const HstuTilingData* tiling_;
  int64_t cells_;   // of a head, of all sequences
  int64_t unit_;    // of a segment
  int64_t before_;  // of the sequences before this one
  int64_t own_;     // of this one
  int64_t blocks_;
  bool shares_;
  int64_t next_;
  int64_t spare_;
  int64_t count_;
  int64_t begins_[HSTU_SEGMENTS + 1];  // in blocks of keys
  int64_t slab_;
};

}  // namespace hstu
