// Splits the work over blocks and lists a block's tiles. A task is (sequence, head, block of rows); its tiles are
// the stretches of the other side that it needs. Tasks are dealt out in contiguous ranges of equal cost; those that own
// keys by segments (hstu_segments.h).
#pragma once
#include "hstu_segments.h"

namespace hstu {

constexpr int64_t TASK_OVERHEAD = 64;  // of a task, in columns of a tile

struct Tile {
  Sequence sequence;
  int64_t head = 0;
  int64_t own = 0;  // first row of the task's block, as a position among the keys
  int64_t ownRows = 0;
  int64_t other = 0;  // first position of the other side
  int64_t otherRows = 0;
  int64_t segmentEnd = 0;
  int64_t slab = 0;  // of the segment: its first row
  bool first = false;
  bool last = false;
  bool opens = false;  // the first tile of its segment
  bool full = false;   // every cell is visible
};

// Queries [begin, end), in whole blocks, between the first and the last that sees one of keys [from, to).
__aicore__ inline void FindQueries(const Mask& mask, const Sequence& s, int64_t blockRows, int64_t from, int64_t to,
                                   int64_t& begin, int64_t& end) {
  begin = s.keys;
  end = s.Shift();
  for (int64_t row = s.Shift(); row < s.keys; row += blockRows) {
    const int64_t rowEnd = Least(row + blockRows, s.keys);
    if (mask.Block(row, rowEnd).Sees(from, to)) {
      begin = Least(begin, row);
      end = rowEnd;
    }
  }
}

// `keysOwn` false: tasks own query rows and walk along keys. True: tasks own keys and walk along queries.
template <bool keysOwn>
class Tasks {
 public:
  __aicore__ inline void Init(const HstuTilingData& tiling, const SequenceInputs& inputs) {
    tiling_ = &tiling;
    sequences_.Init(tiling, inputs);
    mask_.Init(tiling);
    Share();
  }
  __aicore__ inline float Scale() const { return scale_; }

  // The next tile of this core; false when there are no more.
  __aicore__ inline bool Next(Tile& tile) {
    while (true) {
      if (inTask_ && FindTile(tile)) {
        return true;
      }
      if (!NextTask()) {
        return false;
      }
    }
  }

 private:
  __aicore__ inline int64_t OwnBegin(const Sequence& s) const { return keysOwn ? 0 : s.Shift(); }
  __aicore__ inline int64_t OwnEnd(const Sequence& s) const { return s.keys; }

  // What the block's tiles cost: the stretch of the other side between its first and its last visible position.
  __aicore__ inline int64_t Cost(const Sequence& s, int64_t from) const {
    const int64_t to = Least(from + tiling_->blockRows, OwnEnd(s));
    int64_t begin;
    int64_t end;
    Extent(s, from, to, begin, end);
    return TASK_OVERHEAD + Most(end - begin, 0);
  }
  __aicore__ inline void Extent(const Sequence& s, int64_t from, int64_t to, int64_t& begin, int64_t& end) const {
    if constexpr (!keysOwn) {
      const BlockView view = mask_.Block(from, to);
      begin = view.First();
      end = Least(view.Last(), s.keys);
    } else {
      FindQueries(mask_, s, tiling_->blockRows, from, to, begin, end);
    }
  }

  __aicore__ inline int64_t CostOfRows(const Sequence& s, int64_t from, int64_t to) const {
    int64_t cost = 0;
    for (; from < to; from += tiling_->blockRows) {
      cost += Cost(s, from);
    }
    return cost;
  }
  __aicore__ inline int64_t CostOfHead(const Sequence& s) const { return CostOfRows(s, OwnBegin(s), OwnEnd(s)); }

  // Where the tasks end that one core has from `from` on.
  __aicore__ inline int64_t SegmentEnd(const Sequence& s, int64_t from) const {
    if constexpr (keysOwn) {
      return Least(segments_.Begin(segments_.Of(from) + 1), s.keys);
    } else {
      return Least(from + tiling_->blockRows, s.keys);
    }
  }

  // One walk over all sequences gives the total, a second one stops at the first task of this core's range.
  __aicore__ inline void Share() {
    int64_t total = 0;
    int64_t longest = 0;
    sequences_.Rewind(sequence_);
    while (sequences_.Next(sequence_)) {
      sequences_.SetMask(sequence_, mask_);
      total += CostOfHead(sequence_) * tiling_->heads;
      longest = Most(longest, sequence_.keys);
    }
    scale_ = tiling_->scale != 0.0f ? tiling_->scale : 1.0f / static_cast<float>(longest > 0 ? longest : 1);
    const int64_t blocks = AscendC::GetBlockNum();
    const int64_t share = (total + blocks - 1) / blocks;
    at_ = 0;
    begin_ = share * (AscendC::GetBlockIdx() / AscendC::GetSubBlockNum());
    end_ = begin_ + share;
    head_ = tiling_->heads;
    inTask_ = false;
    own_ = 0;
    segmentEnd_ = 0;
    if constexpr (keysOwn) {
      segments_.Init(*tiling_, sequences_);
    }
    sequences_.Rewind(sequence_);
    costOfHead_ = 0;
  }

  // Steps to the next task of this core's range.
  __aicore__ inline bool NextTask() {
    while (own_ < segmentEnd_ || at_ < end_) {
      if (own_ < segmentEnd_) {
        Open(own_);
        own_ += tiling_->blockRows;
        return true;
      }
      if (head_ >= tiling_->heads) {
        if (!sequences_.Next(sequence_)) {
          return false;
        }
        sequences_.SetMask(sequence_, mask_);
        if constexpr (keysOwn) {
          segments_.Open(sequence_);
        }
        costOfHead_ = CostOfHead(sequence_);
        head_ = 0;
        own_ = OwnBegin(sequence_);
        segmentEnd_ = own_;
        if (at_ + costOfHead_ * tiling_->heads <= begin_) {
          at_ += costOfHead_ * tiling_->heads;
          head_ = tiling_->heads;
          continue;
        }
      }
      if (own_ == OwnBegin(sequence_) && at_ + costOfHead_ <= begin_) {
        at_ += costOfHead_;
        ++head_;
        continue;
      }
      if (own_ >= OwnEnd(sequence_)) {
        ++head_;
        own_ = OwnBegin(sequence_);
        segmentEnd_ = own_;
        continue;
      }
      // It belongs to the range that holds its middle: no core gets more than half of one too much at an end.
      if constexpr (keysOwn) {
        segments_.SetHead(head_);
      }
      const int64_t to = SegmentEnd(sequence_, own_);
      const int64_t cost = CostOfRows(sequence_, own_, to);
      const int64_t middle = at_ + cost / 2;
      at_ += cost;
      if (middle >= begin_ && middle < end_) {
        segmentStart_ = own_;
        segmentEnd_ = to;
      } else {
        own_ = to;
      }
    }
    return false;
  }

  __aicore__ inline void Open(int64_t from) {
    block_ = from;
    blockEnd_ = Least(from + tiling_->blockRows, OwnEnd(sequence_));
    Extent(sequence_, block_, blockEnd_, other_, otherEnd_);
    taskHead_ = head_;
    inTask_ = true;
    firstTile_ = true;
    if constexpr (!keysOwn) {
      view_ = mask_.Block(block_, blockEnd_);
    }
    SkipUnseen();
  }

  // Moves to the next stretch of the other side that the block needs.
  __aicore__ inline void SkipUnseen() {
    while (other_ < otherEnd_) {
      const int64_t to = Least(other_ + Step(), otherEnd_);
      const bool seen = keysOwn ? mask_.Block(other_, to).Sees(block_, blockEnd_) : view_.Sees(other_, to);
      if (seen) {
        return;
      }
      other_ = to;
    }
  }
  // How far a tile reaches: to the end of a page where keys come from the cache.
  __aicore__ inline int64_t Step() const {
    if constexpr (!keysOwn) {
      if (other_ < sequence_.cached) {
        const int64_t inPage = tiling_->pageSize - other_ % tiling_->pageSize;
        return Least(Least(inPage, sequence_.cached - other_), tiling_->chunk);
      }
    }
    return tiling_->chunk;
  }

  __aicore__ inline bool FindTile(Tile& tile) {
    // A block that sees nothing still has a result, zeros: it gets one tile without rows.
    if (other_ >= otherEnd_ && !firstTile_) {
      inTask_ = false;
      return false;
    }
    const int64_t to = Most(other_, Least(other_ + Step(), otherEnd_));
    tile.sequence = sequence_;
    tile.head = taskHead_;
    tile.own = block_;
    tile.ownRows = blockEnd_ - block_;
    tile.other = other_;
    tile.otherRows = to - other_;
    tile.first = firstTile_;
    tile.opens = firstTile_ && block_ == segmentStart_;
    tile.segmentEnd = segmentEnd_;
    if constexpr (keysOwn) {
      tile.slab = segments_.Slab(sequence_, segments_.Of(block_));
    }
    tile.full =
        to == other_ || (keysOwn ? mask_.Block(other_, to).SeesAll(block_, blockEnd_) : view_.SeesAll(other_, to));
    firstTile_ = false;
    other_ = to;
    SkipUnseen();
    tile.last = other_ >= otherEnd_;
    if (tile.last) {
      inTask_ = false;
    }
    return true;
  }

  const HstuTilingData* tiling_;
  Sequences sequences_;
  Segments segments_;
  Mask mask_;
  float scale_;
  int64_t begin_;  // this core's range of costs
  int64_t end_;
  int64_t at_;  // cost of everything before the next task
  Sequence sequence_;
  int64_t costOfHead_;
  int64_t head_;
  int64_t own_;           // the next row to deal out, or the next task of the segment
  int64_t segmentStart_;  // of the segment that this core works on
  int64_t segmentEnd_;
  bool inTask_;
  bool firstTile_;
  int64_t taskHead_;
  int64_t block_;
  int64_t blockEnd_;
  int64_t other_;
  int64_t otherEnd_;
  BlockView view_;
};

}  // namespace hstu
