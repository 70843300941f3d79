// Sums of dV and dK in fp32 while a head's queries are walked: a slab for each segment of the head, which one core
// clears and adds to in order. When all segments are done their slabs are added up in order and rounded to the results,
// so that each gradient has one order of summation and its bits do not depend on the number of cores.
#pragma once
#include "hstu_gradient_strips.h"
#include "hstu_result.h"
#include "hstu_tasks.h"

namespace hstu {

template <typename T, typename Strips>
class KeySums {
 public:
  // `workspace`: [segments, heads, keyRows, width] of dV, then of dK, rows padded to SUM_UNIT.
  __aicore__ inline void Init(const HstuTilingData& tiling, const SequenceInputs& inputs, GM_ADDR values, GM_ADDR keys,
                              GM_ADDR workspace, Strips& strips) {
    tiling_ = &tiling;
    strips_ = &strips;
    sequences_.Init(tiling, inputs);
    mask_.Init(tiling);
    values_.Init(values, tiling.keyRows, tiling.heads, tiling.valueDim, tiling.stripElements);
    keys_.Init(keys, tiling.keyRows, tiling.heads, tiling.dim, tiling.stripElements);
    const uint64_t cores = static_cast<uint64_t>(AscendC::GetBlockNum() * AscendC::GetSubBlockNum());
    slabs_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace) + cores * tiling.coreElements,
                           static_cast<uint64_t>(tiling.segments) * tiling.keySumElements);
  }

  // Rows from key `position` of the tile's sequence on.
  __aicore__ inline AscendC::GlobalTensor<float> OfValues(const Tile& tile, int64_t position) const {
    return OfValues(tile.segment, tile.head, tile.sequence.keyStart + position);
  }
  __aicore__ inline AscendC::GlobalTensor<float> OfKeys(const Tile& tile, int64_t position) const {
    return OfKeys(tile.segment, tile.head, tile.sequence.keyStart + position);
  }
  __aicore__ inline int64_t ValuePitch() const { return values_.SumPitch(); }
  __aicore__ inline int64_t KeyPitch() const { return keys_.SumPitch(); }

  // Before the first product of a segment: clears the keys that it sees.
  __aicore__ inline void Open(const Tile& tile) {
    sequences_.SetMask(tile.sequence, mask_);
    int64_t begin;
    int64_t end;
    Hull(tile.sequence, tile.own, begin, end);
    Clear(OfValues(tile, begin), (end - begin) * ValuePitch());
    Clear(OfKeys(tile, begin), (end - begin) * KeyPitch());
    // The cube adds to what the stores have written.
    WaitFor<AscendC::HardEvent::MTE3_S>();
  }

  // After all segments. Keys of all heads are shared out by position; rows of no sequence are zeros.
  __aicore__ inline void Close() {
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::SyncAll();
    const int64_t cores = AscendC::GetBlockNum() * AscendC::GetSubBlockNum();
    const int64_t places = tiling_->heads * tiling_->keyRows;
    const int64_t share = (places + cores - 1) / cores;
    const int64_t begin = share * AscendC::GetBlockIdx();
    const int64_t end = Least(begin + share, places);
    for (int64_t head = begin / Most(tiling_->keyRows, 1); head * tiling_->keyRows < end; ++head) {
      AddHead(head, begin - head * tiling_->keyRows, end - head * tiling_->keyRows);
    }
    if (AscendC::GetBlockIdx() == 0) {
      ZeroUncovered();
    }
  }

 private:
  __aicore__ inline AscendC::GlobalTensor<float> OfValues(int64_t segment, int64_t head, int64_t row) const {
    return slabs_[static_cast<uint64_t>(segment) * tiling_->keySumElements +
                  static_cast<uint64_t>((head * tiling_->keyRows + row) * ValuePitch())];
  }
  __aicore__ inline AscendC::GlobalTensor<float> OfKeys(int64_t segment, int64_t head, int64_t row) const {
    return slabs_[static_cast<uint64_t>(segment) * tiling_->keySumElements +
                  static_cast<uint64_t>(tiling_->heads * tiling_->keyRows * ValuePitch() +
                                        (head * tiling_->keyRows + row) * KeyPitch())];
  }

  // Keys [begin, end) that the segment from query position `from` on may see, in whole blocks; the mask is set.
  __aicore__ inline void Hull(const Sequence& sequence, int64_t from, int64_t& begin, int64_t& end) const {
    begin = sequence.keys;
    end = 0;
    const int64_t to = SegmentEnd(sequence, from, *tiling_);
    for (; from < to; from += tiling_->blockRows) {
      const BlockView view = mask_.Block(from, Least(from + tiling_->blockRows, to));
      if (view.First() < view.Last()) {
        begin = Least(begin, view.First());
        end = Most(end, Least(view.Last(), sequence.keys));
      }
    }
    begin = begin / tiling_->blockRows * tiling_->blockRows;
    end = Least(RoundUp(end, tiling_->blockRows), sequence.keys);
    end = Most(begin, end);
  }

  // The head's blocks of keys whose first row is one of [first, last).
  __aicore__ inline void AddHead(int64_t head, int64_t first, int64_t last) {
    Sequence sequence;
    sequences_.Rewind(sequence);
    while (sequences_.Next(sequence)) {
      const int64_t before = Most(first - sequence.keyStart, 0);
      const int64_t end = Least(last - sequence.keyStart, sequence.keys);
      int64_t from = RoundUp(before, tiling_->blockRows);
      if (from >= end) {
        continue;
      }
      sequences_.SetMask(sequence, mask_);
      FindHulls(sequence);
      for (; from < end; from += tiling_->blockRows) {
        const int64_t rows = Least(tiling_->blockRows, sequence.keys - from);
        const int64_t row = sequence.keyStart + from;
        Add(OfValues(0, head, row), from, rows, ValuePitch(), values_, row, head);
        Add(OfKeys(0, head, row), from, rows, KeyPitch(), keys_, row, head);
      }
    }
  }
  __aicore__ inline void FindHulls(const Sequence& sequence) {
    hulls_ = 0;
    for (int64_t from = sequence.Shift(); from < sequence.keys; from = SegmentEnd(sequence, from, *tiling_)) {
      Hull(sequence, from, begins_[hulls_], ends_[hulls_]);
      ++hulls_;
    }
  }

  // Rounds the sum over the segments that see keys [from, from + rows) to the result.
  __aicore__ inline void Add(const AscendC::GlobalTensor<float>& slab, int64_t from, int64_t rows, int64_t pitch,
                             Result<T>& result, int64_t row, int64_t head) {
    const int64_t atOnce = Least(tiling_->stripElements / pitch, 4095);
    for (int64_t done = 0; done < rows; done += atOnce) {
      const int64_t count = Least(atOnce, rows - done);
      const int32_t elements = static_cast<int32_t>(count * pitch);
      bool any = false;
      AscendC::LocalTensor<float> sum;
      for (int64_t segment = 0; segment < hulls_; ++segment) {
        if (from < begins_[segment] || from >= ends_[segment]) {
          continue;
        }
        const auto part =
            slab[static_cast<uint64_t>(segment) * tiling_->keySumElements + static_cast<uint64_t>(done * pitch)];
        if (!any) {
          sum = Strips::Load(strips_->In(), part, elements);
          any = true;
          continue;
        }
        AscendC::LocalTensor<float> term = Strips::Load(strips_->More(), part, elements);
        AscendC::Add(sum, sum, term, elements);
        Then();
        strips_->More().FreeTensor(term);
      }
      if (any) {
        result.Round(sum, row + done, head, count, strips_->Out());
        strips_->In().FreeTensor(sum);
      } else {
        result.Zero(row + done, head, count, strips_->Out());
      }
    }
  }

  __aicore__ inline void Clear(const AscendC::GlobalTensor<float>& rows, int64_t elements) {
    // A buffer of the result's queue, in whole floats.
    const int64_t atOnce =
        tiling_->stripElements * static_cast<int64_t>(sizeof(T)) / static_cast<int64_t>(sizeof(float));
    for (int64_t from = 0; from < elements; from += atOnce) {
      const uint32_t count = static_cast<uint32_t>(Least(atOnce, elements - from));
      AscendC::LocalTensor<float> zeros = strips_->Out().template AllocTensor<float>();
      AscendC::Duplicate(zeros, 0.0f, static_cast<int32_t>(count));
      strips_->Out().EnQue(zeros);
      zeros = strips_->Out().template DeQue<float>();
      AscendC::DataCopy(rows[static_cast<uint64_t>(from)], zeros, count);
      strips_->Out().FreeTensor(zeros);
    }
  }

  __aicore__ inline void ZeroUncovered() {
    Sequence sequence;
    sequences_.Rewind(sequence);
    int64_t end = sequence.keyStart;
    ZeroRows(0, end);
    while (sequences_.Next(sequence)) {
      end = sequences_.KeyEnd();
      ZeroRows(sequence.keyStart + sequence.keys, end);
    }
    ZeroRows(end, tiling_->keyRows);
  }
  __aicore__ inline void ZeroRows(int64_t from, int64_t to) {
    values_.ZeroRows(from, to, strips_->Out());
    keys_.ZeroRows(from, to, strips_->Out());
  }

  const HstuTilingData* tiling_;
  Strips* strips_;
  Sequences sequences_;
  Mask mask_;
  Result<T> values_;
  Result<T> keys_;
  AscendC::GlobalTensor<float> slabs_;
  int64_t hulls_;
  int64_t begins_[HSTU_SEGMENTS];
  int64_t ends_[HSTU_SEGMENTS];
};

}  // namespace hstu
