// Device side of the embedding operators: flags, integers of either width, and where a feature's rows are.
#pragma once
#include <type_traits>

#include "kernel_operator.h"

namespace embedding {

enum Pooling : uint32_t { POOL_SUM = 0, POOL_MEAN = 1, POOL_NONE = 2 };
enum ElementType : uint32_t { ELEMENT_FLOAT = 0, ELEMENT_HALF = 1, ELEMENT_BFLOAT16 = 2 };

constexpr int64_t LANES = 16;  // row pitches are multiples of this: 32 bytes of the 2-byte types

template <AscendC::HardEvent event>
__aicore__ inline void Fence() {
  const int32_t id = static_cast<int32_t>(GetTPipePtr()->FetchEventID(event));
  AscendC::SetFlag<event>(id);
  AscendC::WaitFlag<event>(id);
}

__aicore__ inline int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }
__aicore__ inline int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }
__aicore__ inline int64_t CeilTo(int64_t a, int64_t b) { return (a + b - 1) / b * b; }

__aicore__ inline int64_t ElementBytes(uint32_t type) { return type == ELEMENT_FLOAT ? 4 : 2; }

// int32 or int64 in GM, through the scalar cache. Only for inputs: what a kernel writes may be stale here.
class Integers {
 public:
  __aicore__ inline void Init(GM_ADDR data, int64_t count, uint32_t bytes) {
    bytes_ = bytes;
    narrow_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(data), static_cast<uint64_t>(count));
    wide_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(data), static_cast<uint64_t>(count));
  }

  __aicore__ inline int64_t At(int64_t i) const {
    return bytes_ == 8 ? wide_.GetValue(static_cast<uint64_t>(i))
                       : static_cast<int64_t>(narrow_.GetValue(static_cast<uint64_t>(i)));
  }

  __aicore__ inline uint32_t Bytes() const { return bytes_; }
  __aicore__ inline const AscendC::GlobalTensor<int32_t>& Narrow() const { return narrow_; }
  __aicore__ inline const AscendC::GlobalTensor<int64_t>& Wide() const { return wide_; }

 private:
  uint32_t bytes_;
  AscendC::GlobalTensor<int32_t> narrow_;
  AscendC::GlobalTensor<int64_t> wide_;
};

// A stretch of integers in the unified buffer, filled by DMA; read by the scalar unit.
class IntegerTile {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, uint32_t capacity) {
    capacity_ = capacity;
    pipe->InitBuffer(buffer_, capacity * sizeof(int64_t));
    first_ = 0;
    end_ = 0;
  }

  // Entry i of `source`, which ends at `end`; loads the stretch that starts with it, if it is not here.
  __aicore__ inline int64_t At(const Integers& source, int64_t i, int64_t end) {
    if (i < first_ || i >= end_) {
      Load(source, i, Smaller(i + capacity_, end));
    }
    const uint32_t at = static_cast<uint32_t>(i - first_);
    return source.Bytes() == 8 ? buffer_.Get<int64_t>().GetValue(at)
                               : static_cast<int64_t>(buffer_.Get<int32_t>().GetValue(at));
  }

 private:
  __aicore__ inline void Load(const Integers& source, int64_t first, int64_t end) {
    Fence<AscendC::HardEvent::S_MTE2>();  // the scalar unit has read the stretch before
    const uint32_t bytes = static_cast<uint32_t>(end - first) * source.Bytes();
    const AscendC::DataCopyExtParams burst(1, bytes, 0, 0, 0);
    AscendC::PipeBarrier<PIPE_MTE2>();
    if (source.Bytes() == 8) {
      AscendC::DataCopyPad(buffer_.Get<int64_t>(), source.Wide()[static_cast<uint64_t>(first)], burst,
                           AscendC::DataCopyPadExtParams<int64_t>(false, 0, 0, 0));
    } else {
      AscendC::DataCopyPad(buffer_.Get<int32_t>(), source.Narrow()[static_cast<uint64_t>(first)], burst,
                           AscendC::DataCopyPadExtParams<int32_t>(false, 0, 0, 0));
    }
    Fence<AscendC::HardEvent::MTE2_S>();
    first_ = first;
    end_ = end;
  }

  AscendC::TBuf<AscendC::TPosition::VECCALC> buffer_;
  int64_t capacity_;
  int64_t first_;
  int64_t end_;
};

// Rows of the table that feature t reads. Whatever the descriptions say, Rows() rows from Base() are inside weights.
class FeatureTable {
 public:
  __aicore__ inline void Init(GM_ADDR weightsOffsets, GM_ADDR dOffsets, int64_t features, int64_t weightElements) {
    starts_.Init(weightsOffsets, features, sizeof(int64_t));
    columns_.Init(dOffsets, features + 1, sizeof(int32_t));
    features_ = features;
    weightElements_ = weightElements;
    feature_ = -1;
  }

  __aicore__ inline void Select(int64_t t) {
    if (t == feature_) {
      return;
    }
    feature_ = t;
    column_ = columns_.At(t);
    width_ = columns_.At(t + 1) - column_;
    base_ = starts_.At(t);
    rows_ = 0;
    if (width_ <= 0 || base_ < 0 || base_ > weightElements_) {
      width_ = 0;
      return;
    }
    int64_t next = weightElements_;  // where the following table starts
    for (int64_t i = 0; i < features_; ++i) {
      const int64_t start = starts_.At(i);
      if (start > base_ && start < next) {
        next = start;
      }
    }
    rows_ = (next - base_) / width_;
  }

  __aicore__ inline int64_t Feature() const { return feature_; }
  __aicore__ inline int64_t Column() const { return column_; }
  __aicore__ inline int64_t Width() const { return width_; }
  __aicore__ inline int64_t Base() const { return base_; }
  __aicore__ inline int64_t Rows() const { return rows_; }

 private:
  Integers starts_;
  Integers columns_;
  int64_t features_;
  int64_t weightElements_;
  int64_t feature_;
  int64_t column_;
  int64_t width_;
  int64_t base_;
  int64_t rows_;
};

}  // namespace embedding
