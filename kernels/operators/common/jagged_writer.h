// Writes a contiguous share of an output as a sequence of runs: copied from GM, or filled with one pattern.
// Runs that touch are merged before they are moved, so short rows and neighbouring paddings cost one transfer.
#pragma once
#include "kernel_operator.h"

namespace jagged {

constexpr uint32_t COPY_BUFFERS = 2;

template <typename T>
class RunWriter {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const AscendC::GlobalTensor<T>& source,
                              const AscendC::GlobalTensor<T>& target, uint32_t tileBytes, uint32_t fillBytes,
                              uint64_t fillPattern) {
    source_ = source;
    target_ = target;
    tileElements_ = tileBytes / sizeof(T);
    fillElements_ = fillBytes / sizeof(T);
    pipe->InitBuffer(queue_, COPY_BUFFERS, tileBytes);
    pipe->InitBuffer(fillBuffer_, fillBytes);
    MakeFill(fillBytes, fillPattern);
    kind_ = NOTHING;
  }

  // Goes on with another pair of tensors; the buffers stay.
  __aicore__ inline void Aim(const AscendC::GlobalTensor<T>& source, const AscendC::GlobalTensor<T>& target) {
    Flush();
    source_ = source;
    target_ = target;
  }

  __aicore__ inline void Copy(int64_t target, int64_t source, int64_t count) {
    if (kind_ == COPY && target == targetStart_ + count_ && source == sourceStart_ + count_) {
      count_ += count;
      return;
    }
    Flush();
    kind_ = COPY;
    targetStart_ = target;
    sourceStart_ = source;
    count_ = count;
  }

  __aicore__ inline void Fill(int64_t target, int64_t count) {
    if (kind_ == FILL && target == targetStart_ + count_) {
      count_ += count;
      return;
    }
    Flush();
    kind_ = FILL;
    targetStart_ = target;
    count_ = count;
  }

  __aicore__ inline void Flush() {
    if (kind_ == COPY) {
      FlushCopy();
    } else if (kind_ == FILL) {
      FlushFill();
    }
    kind_ = NOTHING;
  }

 private:
  enum Kind : uint32_t { NOTHING, COPY, FILL };

  // Elements of 1, 2, 4 and 8 bytes alike: lanes of 4 bytes, the two halves of the pattern in turn.
  __aicore__ inline void MakeFill(uint32_t bytes, uint64_t pattern) {
    constexpr uint32_t repeatBytes = 256;
    constexpr uint32_t maxRepeats = 128;
    AscendC::LocalTensor<uint32_t> lanes = fillBuffer_.template Get<uint32_t>();
    const uint32_t low = static_cast<uint32_t>(pattern);
    const uint32_t high = static_cast<uint32_t>(pattern >> 32);
    if (low == high) {
      AscendC::Duplicate<uint32_t>(lanes, low, static_cast<int32_t>(bytes / sizeof(uint32_t)));
    } else {
      uint64_t even[2] = {0x5555555555555555ULL, 0};
      uint64_t odd[2] = {0xAAAAAAAAAAAAAAAAULL, 0};
      uint32_t done = 0;
      const uint32_t repeats = bytes / repeatBytes;
      while (done < repeats) {
        const uint32_t now = repeats - done < maxRepeats ? repeats - done : maxRepeats;
        const uint32_t at = done * (repeatBytes / sizeof(uint32_t));
        AscendC::Duplicate<uint32_t>(lanes[at], low, even, static_cast<uint8_t>(now), 1, 8);
        AscendC::Duplicate<uint32_t>(lanes[at], high, odd, static_cast<uint8_t>(now), 1, 8);
        done += now;
      }
    }
    const int32_t ready = static_cast<int32_t>(GetTPipePtr()->FetchEventID(AscendC::HardEvent::V_MTE3));
    AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(ready);
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(ready);
    fill_ = fillBuffer_.template Get<T>();
  }

  __aicore__ inline void FlushCopy() {
    int64_t done = 0;
    while (done < count_) {
      const int64_t left = count_ - done;
      const uint32_t now = left < tileElements_ ? static_cast<uint32_t>(left) : tileElements_;
      const AscendC::DataCopyExtParams burst(1, now * static_cast<uint32_t>(sizeof(T)), 0, 0, 0);
      AscendC::LocalTensor<T> tile = queue_.template AllocTensor<T>();
      AscendC::DataCopyPad(tile, source_[sourceStart_ + done], burst, AscendC::DataCopyPadExtParams<T>(false, 0, 0, 0));
      queue_.EnQue(tile);
      tile = queue_.template DeQue<T>();
      AscendC::DataCopyPad(target_[targetStart_ + done], tile, burst);
      queue_.FreeTensor(tile);
      done += now;
    }
  }

  __aicore__ inline void FlushFill() {
    int64_t done = 0;
    while (done < count_) {
      const int64_t left = count_ - done;
      const uint32_t now = left < fillElements_ ? static_cast<uint32_t>(left) : fillElements_;
      const AscendC::DataCopyExtParams burst(1, now * static_cast<uint32_t>(sizeof(T)), 0, 0, 0);
      AscendC::DataCopyPad(target_[targetStart_ + done], fill_, burst);
      done += now;
    }
  }

  AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1> queue_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> fillBuffer_;
  AscendC::LocalTensor<T> fill_;
  AscendC::GlobalTensor<T> source_;
  AscendC::GlobalTensor<T> target_;
  uint32_t tileElements_;
  uint32_t fillElements_;
  Kind kind_;
  int64_t targetStart_;
  int64_t sourceStart_;
  int64_t count_;
};

}  // namespace jagged
