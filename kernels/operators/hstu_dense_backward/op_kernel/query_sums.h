// Sums of dQ in fp32 while a head's keys are walked: a slab for each segment, which one block clears and adds to in
// order. When all segments are done their slabs are added up in order and rounded to the result, so that a gradient has
// one order of summation and its bits do not depend on the number of cores.
#pragma once
#include "hstu_block.h"
#include "hstu_gradient_strips.h"
#include "hstu_result.h"
#include "hstu_tasks.h"

namespace hstu {

template <typename T, typename Strips>
class QuerySums {
 public:
  // Slabs lie behind the workspaces of all blocks and cores: [heads, slabRows, pitch].
  __aicore__ inline void Init(const HstuTilingData& tiling, const SequenceInputs& inputs, GM_ADDR queries,
                              GM_ADDR workspace, Strips& strips) {
    tiling_ = &tiling;
    strips_ = &strips;
    sequences_.Init(tiling, inputs);
    mask_.Init(tiling);
    result_.Init(queries, tiling.queryRows, tiling.heads, tiling.dim, tiling.stripElements);
    cores_ = AscendC::GetBlockNum() * AscendC::GetSubBlockNum();
    slabs_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace) + PlaceOfAll(tiling),
                           static_cast<uint64_t>(tiling.heads * tiling.slabRows * Pitch()));
  }

  // Rows from query `position` of the tile's sequence on.
  __aicore__ inline AscendC::GlobalTensor<float> Of(const Tile& tile, int64_t position) const {
    return At(tile.head, tile.slab + position - tile.sequence.Shift());
  }
  __aicore__ inline int64_t Pitch() const { return result_.SumPitch(); }

  // Before the first product of a segment: clears the rows of all queries that see it.
  __aicore__ inline void Open(const Tile& tile) {
    sequences_.SetMask(tile.sequence, mask_);
    int64_t begin;
    int64_t end;
    FindQueries(mask_, tile.sequence, tiling_->blockRows, tile.own, tile.segmentEnd, begin, end);
    Clear(Of(tile, begin), (end - begin) * Pitch());
    // The cube adds to what the stores have written.
    WaitFor<AscendC::HardEvent::MTE3_S>();
  }

  // After all segments. Blocks of queries of all heads are shared out by their first row.
  __aicore__ inline void Close() {
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::SyncAll();
    const int64_t rows = tiling_->queryRows;
    const int64_t share = (tiling_->heads * rows + cores_ - 1) / cores_;
    const int64_t begin = share * AscendC::GetBlockIdx();
    const int64_t end = Least(begin + share, tiling_->heads * rows);
    for (int64_t head = begin / Most(rows, 1); head * rows < end; ++head) {
      AddHead(head, begin - head * rows, end - head * rows);
    }
    if (AscendC::GetBlockIdx() == 0) {
      ZeroUncovered();
    }
  }

 private:
  __aicore__ inline AscendC::GlobalTensor<float> At(int64_t head, int64_t row) const {
    return slabs_[static_cast<uint64_t>((head * tiling_->slabRows + row) * Pitch())];
  }

  // Blocks of the head whose first row is one of [first, last).
  __aicore__ inline void AddHead(int64_t head, int64_t first, int64_t last) {
    Sequence sequence;
    segments_.Init(*tiling_, sequences_);
    sequences_.Rewind(sequence);
    while (sequences_.Next(sequence)) {
      segments_.Open(sequence);
      segments_.SetHead(head);
      const int64_t end = Least(last - sequence.queryStart, sequence.queries);
      int64_t from = RoundUp(Most(first - sequence.queryStart, 0), tiling_->blockRows);
      if (from >= end) {
        continue;
      }
      sequences_.SetMask(sequence, mask_);
      for (int64_t i = 0; i < segments_.Count(); ++i) {
        const int64_t to = Least(segments_.Begin(i + 1), sequence.keys);
        FindQueries(mask_, sequence, tiling_->blockRows, segments_.Begin(i), to, begins_[i], ends_[i]);
      }
      for (; from < end; from += tiling_->blockRows) {
        Add(sequence, head, from, Least(tiling_->blockRows, sequence.queries - from));
      }
    }
  }

  // Rounds the sum over the segments that queries [from, from + rows) see to the result.
  __aicore__ inline void Add(const Sequence& sequence, int64_t head, int64_t from, int64_t rows) {
    const int64_t position = sequence.Shift() + from;
    const int64_t atOnce = Least(tiling_->stripElements / Pitch(), 4095);
    for (int64_t done = 0; done < rows; done += atOnce) {
      const int64_t count = Least(atOnce, rows - done);
      const int32_t elements = static_cast<int32_t>(count * Pitch());
      const int64_t row = sequence.queryStart + from + done;
      bool any = false;
      AscendC::LocalTensor<float> sum;
      for (int64_t i = 0; i < segments_.Count(); ++i) {
        if (position < begins_[i] || position >= ends_[i]) {
          continue;
        }
        const AscendC::GlobalTensor<float> part = At(head, segments_.Slab(sequence, i) + from + done);
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
        result_.Round(sum, row, head, count, strips_->Out());
        strips_->In().FreeTensor(sum);
      } else {
        result_.Zero(row, head, count, strips_->Out());
      }
    }
  }

  // Each core of the block clears a half.
  __aicore__ inline void Clear(const AscendC::GlobalTensor<float>& rows, int64_t elements) {
    const int64_t half = RoundUp(elements / 2, SUM_UNIT / 2);
    const int64_t begin = Leads() ? 0 : half;
    const int64_t end = Leads() ? half : elements;
    // A buffer of the result's queue, in whole floats.
    const int64_t atOnce =
        tiling_->stripElements * static_cast<int64_t>(sizeof(T)) / static_cast<int64_t>(sizeof(float));
    for (int64_t from = begin; from < end; from += atOnce) {
      const uint32_t count = static_cast<uint32_t>(Least(atOnce, end - from));
      AscendC::LocalTensor<float> zeros = strips_->Out().template AllocTensor<float>();
      AscendC::Duplicate(zeros, 0.0f, static_cast<int32_t>(count));
      strips_->Out().EnQue(zeros);
      zeros = strips_->Out().template DeQue<float>();
      AscendC::DataCopy(rows[static_cast<uint64_t>(from)], zeros, count);
      strips_->Out().FreeTensor(zeros);
    }
  }

  // Rows of no sequence.
  __aicore__ inline void ZeroUncovered() {
    Sequence sequence;
    sequences_.Rewind(sequence);
    int64_t end = sequence.queryStart;
    result_.ZeroRows(0, end, strips_->Out());
    while (sequences_.Next(sequence)) {
      end = sequences_.QueryEnd();
      result_.ZeroRows(sequence.queryStart + sequence.queries, end, strips_->Out());
    }
    result_.ZeroRows(end, tiling_->queryRows, strips_->Out());
  }

  const HstuTilingData* tiling_;
  Strips* strips_;
  Sequences sequences_;
  Segments segments_;
  Mask mask_;
  Result<T> result_;
  AscendC::GlobalTensor<float> slabs_;
  int64_t cores_;
  int64_t begins_[HSTU_SEGMENTS];  // of the queries that see each segment
  int64_t ends_[HSTU_SEGMENTS];
};

}  // namespace hstu
