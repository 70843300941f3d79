// Offsets, counts and pages of an HSTU operator that cannot be right, told to the host (data_faults.h).
// hstu_sequences.h makes them safe. The vector cores share the sequences and the pages out: each looks at a few.
#pragma once
#include "data_faults.h"
#include "hstu_sequences.h"

namespace hstu {

class SequenceFaults {
 public:
  __aicore__ inline void Init(const HstuTilingData& tiling, const SequenceInputs& inputs, GM_ADDR address,
                              fault::Operator which) {
    tiling_ = &tiling;
    reporter_.Init(address, which);
    const uint32_t bytes = tiling.indexBytes;
    offsets_.Init(inputs.offsets, tiling.batch + 1, bytes);
    keyOffsets_.Init(inputs.keyOffsets, tiling.batch + 1, bytes);
    contexts_.Init(inputs.contexts, tiling.batch, bytes);
    targets_.Init(inputs.targets, tiling.batch, bytes);
    pageOffsets_.Init(inputs.pageOffsets, tiling.batch + 1, bytes);
    pageIds_.Init(inputs.pageIds, tiling.pageIds, bytes);
    lastPageLengths_.Init(inputs.lastPageLengths, tiling.batch, bytes);
  }

  __aicore__ inline void Look() {
    const int64_t cores = AscendC::GetBlockNum() * AscendC::GetSubBlockNum();
    const int64_t core = AscendC::GetBlockIdx();
    if (core == 0) {
      LookAtEnds();
    }
    const int64_t end = tiling_->batch * (core + 1) / cores;
    for (int64_t b = tiling_->batch * core / cores; b < end && !reporter_.Silent(); ++b) {
      LookAtSequence(b);
    }
    if (tiling_->pages == 0) {
      return;
    }
    const int64_t stop = tiling_->pageIds * (core + 1) / cores;
    for (int64_t i = tiling_->pageIds * core / cores; i < stop && !reporter_.Silent(); ++i) {
      const int64_t page = pageIds_.At(i);
      if (page < 0 || page >= tiling_->pages) {
        reporter_.Tell(fault::OUT_OF_RANGE, fault::PAGE_IDS, i, page, tiling_->pages);
      }
    }
  }

 private:
  __aicore__ inline void LookAtEnds() {
    if (tiling_->fixedLength == 0) {
      LookAtEnds(offsets_, fault::SEQ_OFFSET, tiling_->queryRows);
    }
    if (tiling_->hasKeyOffsets != 0) {
      LookAtEnds(keyOffsets_, fault::SEQ_OFFSET_K, tiling_->keyRows);
    }
    if (tiling_->pages != 0) {
      LookAtEnds(pageOffsets_, fault::PAGE_OFFSETS, tiling_->pageIds);
    }
  }
  __aicore__ inline void LookAtEnds(const Indices& offsets, fault::Argument argument, int64_t rows) {
    const int64_t first = offsets.At(0);
    if (first != 0) {
      reporter_.Tell(fault::FIRST, argument, 0, first, 0);
    }
    const int64_t last = offsets.At(tiling_->batch);
    if (last != rows) {
      reporter_.Tell(fault::NOT_THE_END, argument, tiling_->batch, last, rows);
    }
  }

  // Entries of `offsets` that belong to sequence b.
  __aicore__ inline int64_t LengthOf(const Indices& offsets, fault::Argument argument, int64_t b) {
    const int64_t start = offsets.At(b);
    const int64_t end = offsets.At(b + 1);
    if (end < start) {
      reporter_.Tell(fault::DECREASES, argument, b + 1, end, start);
    }
    return end - start;
  }

  __aicore__ inline int64_t CachedTokens(int64_t b) {
    const int64_t pages = LengthOf(pageOffsets_, fault::PAGE_OFFSETS, b);
    if (pages <= 0) {
      return 0;
    }
    const int64_t fill = lastPageLengths_.At(b);
    if (fill < 1 || fill > tiling_->pageSize) {
      reporter_.Tell(fault::BAD_FILL, fault::LAST_PAGE_LEN, b, fill, tiling_->pageSize);
    }
    return (pages - 1) * tiling_->pageSize + fill;
  }

  __aicore__ inline void LookAtSequence(int64_t b) {
    int64_t queries = tiling_->fixedLength;
    if (queries == 0) {
      queries = LengthOf(offsets_, fault::SEQ_OFFSET, b);
    }
    int64_t keys = queries;
    if (tiling_->hasKeyOffsets != 0) {
      keys = LengthOf(keyOffsets_, fault::SEQ_OFFSET_K, b);
    }
    if (tiling_->pages != 0) {
      keys += CachedTokens(b);
    }
    if (queries > keys) {
      reporter_.Tell(fault::TOO_MANY_QUERIES, fault::SEQ_OFFSET, b, queries, keys);
    }
    LookAtLength(b, keys, fault::MAX_SEQ_LEN, tiling_->maxSeqLen);
    LookAtLength(b, keys, fault::ATTN_BIAS, tiling_->bias.present != 0 ? tiling_->bias.size : 0);
    LookAtLength(b, keys, fault::MASK, tiling_->mask.present != 0 ? tiling_->mask.size : 0);
    LookAtLength(b, keys, fault::POSITION, tiling_->relative.positions);
    LookAtCounts(b, keys);
  }
  // limit 0: there is none.
  __aicore__ inline void LookAtLength(int64_t b, int64_t tokens, fault::Argument argument, int64_t limit) {
    if (limit != 0 && tokens > limit) {
      reporter_.Tell(fault::TOO_LONG, argument, b, tokens, limit);
    }
  }
  __aicore__ inline void LookAtCounts(int64_t b, int64_t keys) {
    const int64_t contexts = CountOf(contexts_, tiling_->hasContexts, fault::NUM_CONTEXT, b);
    const int64_t targets = CountOf(targets_, tiling_->hasTargets, fault::NUM_TARGET, b);
    if (contexts > keys || targets > keys - contexts) {
      reporter_.Tell(fault::TOO_MANY_COUNTED, fault::NUM_CONTEXT, b, contexts + targets, keys);
    }
  }
  __aicore__ inline int64_t CountOf(const Indices& counts, uint32_t present, fault::Argument argument, int64_t b) {
    if (present == 0) {
      return 0;
    }
    const int64_t count = counts.At(b);
    if (count < 0) {
      reporter_.Tell(fault::NEGATIVE, argument, b, count, 0);
    }
    return count;
  }

  const HstuTilingData* tiling_;
  fault::Reporter reporter_;
  Indices offsets_;
  Indices keyOffsets_;
  Indices contexts_;
  Indices targets_;
  Indices pageOffsets_;
  Indices pageIds_;
  Indices lastPageLengths_;
};

}  // namespace hstu
