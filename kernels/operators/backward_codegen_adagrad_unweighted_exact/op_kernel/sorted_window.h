// A stretch of the sorted records in the unified buffer, with the neighbours on both sides.
#pragma once
#include "contribution.h"

constexpr int64_t WINDOW = 512;  // records; a multiple of a block

// One contribution in the order of the sums. A row's contributions are a segment; sums run from block border to block
// border, so that they do not depend on the number of cores.
struct Contribution {
  int64_t key;
  uint32_t source;
  uint32_t extra;
  bool first;  // of its segment, or of the block
  bool last;
  bool fromBefore;  // the segment starts in an earlier block
  bool goesOn;      // the segment goes on in the next block
};

class SortedWindow {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const AscendC::GlobalTensor<uint32_t>& records, int64_t count) {
    records_ = records;
    count_ = count;
    pipe->InitBuffer(buffer_, (WINDOW + 2) * RECORD_BYTES);
    pipe->InitBuffer(probe_, 2 * RECORD_BYTES);
    view_.Attach(buffer_.Get<uint32_t>());
  }

  __aicore__ inline void Open(int64_t first) {
    begin_ = first > 0 ? first - 1 : 0;
    const int64_t end = embedding::Smaller(count_, first + WINDOW + 1);
    embedding::Fence<AscendC::HardEvent::S_MTE2>();
    AscendC::PipeBarrier<PIPE_MTE2>();
    LoadRecords(buffer_.Get<uint32_t>(), records_, begin_, end - begin_);
    embedding::Fence<AscendC::HardEvent::MTE2_S>();
  }

  __aicore__ inline int64_t Key(int64_t i) const { return view_.Key(static_cast<uint32_t>(i - begin_)); }

  __aicore__ inline Contribution At(int64_t i) const {
    const int64_t blockStart = i / BLOCK * BLOCK;
    const int64_t blockEnd = embedding::Smaller(count_, blockStart + BLOCK);
    Contribution result;
    result.key = Key(i);
    result.source = view_.Source(static_cast<uint32_t>(i - begin_));
    result.extra = view_.Extra(static_cast<uint32_t>(i - begin_));
    result.first = i == blockStart || Key(i - 1) != result.key;
    result.last = i + 1 == blockEnd || Key(i + 1) != result.key;
    result.fromBefore = blockStart > 0 && Key(blockStart) == result.key && Key(blockStart - 1) == result.key;
    result.goesOn = blockEnd < count_ && Key(blockEnd - 1) == result.key && Key(blockEnd) == result.key;
    return result;
  }

  // The key of any record, by a transfer of its own.
  __aicore__ inline int64_t Probe(int64_t i) {
    embedding::Fence<AscendC::HardEvent::S_MTE2>();
    AscendC::PipeBarrier<PIPE_MTE2>();
    LoadRecords(probe_.Get<uint32_t>(), records_, i, 1);
    embedding::Fence<AscendC::HardEvent::MTE2_S>();
    Records record;
    record.Attach(probe_.Get<uint32_t>());
    return record.Key(0);
  }

  // The last block that holds contributions of `key`, which goes on after `block`: found by galloping.
  __aicore__ inline int64_t LastBlock(int64_t key, int64_t block) {
    const int64_t blocks = (count_ + BLOCK - 1) / BLOCK;
    int64_t low = block + 1;  // starts with the key
    int64_t step = 1;
    while (low + step < blocks && Probe((low + step) * BLOCK) == key) {
      low += step;
      step *= 2;
    }
    int64_t high = embedding::Smaller(blocks, low + step);  // does not
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      if (Probe(middle * BLOCK) == key) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }

 private:
  AscendC::GlobalTensor<uint32_t> records_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> buffer_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> probe_;
  Records view_;
  int64_t count_;
  int64_t begin_;
};
