// Where the rows of each sequence lie. Offsets are read through the scalar cache (nothing writes them) and made
// monotonous, so that wrong offsets give wrong values but never a wrong address, and every row has one owner at most.
#pragma once
#include "kernel_operator.h"

#include "hstu_mask.h"

namespace hstu {

// Sequence b: query rows [queryStart, queryStart + queries), which stand at the end of its keys; keys are `cached` rows
// of the key-value cache, then rows from keyStart on.
struct Sequence {
  int64_t index = 0;
  int64_t queryStart = 0;
  int64_t queries = 0;
  int64_t keyStart = 0;
  int64_t keys = 0;
  int64_t cached = 0;
  int64_t firstPage = 0;

  // Position of the first query among the keys.
  __aicore__ inline int64_t Shift() const { return keys - queries; }
};

// Optional inputs of one-dimensional integers, 4 or 8 bytes each.
class Indices {
 public:
  __aicore__ inline void Init(GM_ADDR address, int64_t count, uint32_t bytes) {
    wide_ = bytes == sizeof(int64_t);
    const uint64_t size = static_cast<uint64_t>(count);
    if (wide_) {
      wideValues_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(address), size);
    } else {
      values_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(address), size);
    }
  }
  __aicore__ inline int64_t At(int64_t i) const {
    const uint64_t index = static_cast<uint64_t>(i);
    return wide_ ? wideValues_.GetValue(index) : static_cast<int64_t>(values_.GetValue(index));
  }

 private:
  bool wide_;
  AscendC::GlobalTensor<int64_t> wideValues_;
  AscendC::GlobalTensor<int32_t> values_;
};

struct SequenceInputs {
  GM_ADDR offsets;
  GM_ADDR keyOffsets;
  GM_ADDR contexts;
  GM_ADDR targets;
  GM_ADDR pageOffsets;
  GM_ADDR pageIds;
  GM_ADDR lastPageLengths;
};

class Sequences {
 public:
  __aicore__ inline void Init(const HstuTilingData& tiling, const SequenceInputs& inputs) {
    tiling_ = &tiling;
    const uint32_t bytes = tiling.indexBytes;
    offsets_.Init(inputs.offsets, tiling.batch + 1, bytes);
    keyOffsets_.Init(inputs.keyOffsets, tiling.batch + 1, bytes);
    contexts_.Init(inputs.contexts, tiling.batch, bytes);
    targets_.Init(inputs.targets, tiling.batch, bytes);
    pageOffsets_.Init(inputs.pageOffsets, tiling.batch + 1, bytes);
    pageIds_.Init(inputs.pageIds, tiling.pageIds, bytes);
    lastPageLengths_.Init(inputs.lastPageLengths, tiling.batch, bytes);
    // Masks and biases bound the positions; rows beyond them do not take part.
    limit_ = tiling.bias.present != 0 ? tiling.bias.size : INT64_MAX;
    if (tiling.relative.positions != 0) {
      limit_ = tiling.relative.positions;
    }
    if (tiling.mask.present != 0) {
      limit_ = Least(limit_, tiling.mask.size);
    }
  }

  // Before the first sequence.
  __aicore__ inline void Rewind(Sequence& sequence) const {
    sequence.index = -1;
    sequence.queryStart = tiling_->fixedLength != 0 ? 0 : Within(offsets_.At(0), 0, tiling_->queryRows);
    sequence.queries = 0;
    sequence.keyStart =
        tiling_->hasKeyOffsets != 0 ? Within(keyOffsets_.At(0), 0, tiling_->keyRows) : sequence.queryStart;
    sequence.keys = 0;
    sequence.cached = 0;
    sequence.firstPage = 0;
    queryEnd_ = sequence.queryStart;
    keyEnd_ = sequence.keyStart;
  }

  // The next sequence; false after the last.
  __aicore__ inline bool Next(Sequence& sequence) const {
    const int64_t b = ++sequence.index;
    if (b >= tiling_->batch) {
      return false;
    }
    sequence.queryStart = queryEnd_;
    sequence.keyStart = keyEnd_;
    if (tiling_->fixedLength != 0) {
      queryEnd_ += tiling_->fixedLength;
    } else {
      queryEnd_ = Within(offsets_.At(b + 1), queryEnd_, tiling_->queryRows);
    }
    if (tiling_->hasKeyOffsets != 0) {
      keyEnd_ = Within(keyOffsets_.At(b + 1), keyEnd_, tiling_->keyRows);
    } else {
      keyEnd_ = Least(queryEnd_, tiling_->keyRows);
    }
    sequence.keys = keyEnd_ - sequence.keyStart;
    FindPages(sequence);
    sequence.keys = Least(sequence.keys, limit_);
    // More queries than keys is an error that the caller's checks name; here the surplus is left out.
    sequence.queries = Least(queryEnd_ - sequence.queryStart, sequence.keys);
    return true;
  }
  // Ends of the rows of the sequence that Next has just given, also of those that do not take part.
  __aicore__ inline int64_t QueryEnd() const { return queryEnd_; }
  __aicore__ inline int64_t KeyEnd() const { return keyEnd_; }

  __aicore__ inline void SetMask(const Sequence& sequence, Mask& mask) const {
    mask.SetSequence(sequence.keys, tiling_->hasContexts != 0 ? contexts_.At(sequence.index) : 0,
                     tiling_->hasTargets != 0 ? targets_.At(sequence.index) : 0);
  }
  // The page that holds cached row `position`, inside the cache whatever the inputs say.
  __aicore__ inline int64_t Page(const Sequence& sequence, int64_t position) const {
    return Within(pageIds_.At(sequence.firstPage + position / tiling_->pageSize), 0, tiling_->pages - 1);
  }

 private:
  __aicore__ inline void FindPages(Sequence& sequence) const {
    sequence.cached = 0;
    if (tiling_->pages == 0) {
      return;
    }
    sequence.firstPage = Within(pageOffsets_.At(sequence.index), 0, tiling_->pageIds);
    const int64_t end = Within(pageOffsets_.At(sequence.index + 1), sequence.firstPage, tiling_->pageIds);
    if (end > sequence.firstPage) {
      sequence.cached = (end - sequence.firstPage - 1) * tiling_->pageSize +
                        Within(lastPageLengths_.At(sequence.index), 0, tiling_->pageSize);
    }
    sequence.keys += sequence.cached;
  }

  const HstuTilingData* tiling_;
  Indices offsets_;
  Indices keyOffsets_;
  Indices contexts_;
  Indices targets_;
  Indices pageOffsets_;
  Indices pageIds_;
  Indices lastPageLengths_;
  int64_t limit_;
  mutable int64_t queryEnd_;
  mutable int64_t keyEnd_;
};

}  // namespace hstu
