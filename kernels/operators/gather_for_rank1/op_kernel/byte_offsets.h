// Offsets for Gather: built once, or from indices. Everything is vector work on int32.
#pragma once
#include "kernel_operator.h"

namespace gather {

constexpr uint32_t UB_BLOCK = 32;

// words[j] = (j / group) * step + (j % group) * 4: `count` words, written by doubling from one 32-byte block.
__aicore__ inline void MakeStairs(const AscendC::LocalTensor<int32_t>& words, int32_t group, int32_t step,
                                  uint32_t count) {
  constexpr uint32_t first = UB_BLOCK / sizeof(int32_t);
  for (uint32_t j = 0; j < first; ++j) {
    const int32_t at = static_cast<int32_t>(j);
    words.SetValue(j, at / group * step + at % group * static_cast<int32_t>(sizeof(int32_t)));
  }
  const int32_t ready = static_cast<int32_t>(GetTPipePtr()->FetchEventID(AscendC::HardEvent::S_V));
  AscendC::SetFlag<AscendC::HardEvent::S_V>(ready);
  AscendC::WaitFlag<AscendC::HardEvent::S_V>(ready);
  for (uint32_t done = first; done < count; done *= 2) {
    const uint32_t more = count - done < done ? count - done : done;
    AscendC::Adds(words[done], words, static_cast<int32_t>(done) / group * step, static_cast<int32_t>(more));
    AscendC::PipeBarrier<PIPE_V>();
  }
}

// Indices into the table with its leading and trailing zeros: what is out of range points at a zero.
class TableOffsets {
 public:
  __aicore__ inline void Init(uint32_t width, int64_t length) {
    lead_ = static_cast<int32_t>(UB_BLOCK / width);
    width_ = static_cast<int32_t>(width);
    length_ = static_cast<int32_t>(length);
  }

  __aicore__ inline void Make(const AscendC::LocalTensor<int32_t>& offsets, const AscendC::LocalTensor<int32_t>& index,
                              uint32_t count) const {
    AscendC::Maxs(offsets, index, static_cast<int32_t>(-1), static_cast<int32_t>(count));
    Finish(offsets, count);
  }

  // 64-bit indices saturate, so that the large ones stay out of range.
  __aicore__ inline void Make(const AscendC::LocalTensor<int32_t>& offsets, const AscendC::LocalTensor<int64_t>& index,
                              uint32_t count) const {
    AscendC::Cast(offsets, index, AscendC::RoundMode::CAST_NONE, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Maxs(offsets, offsets, static_cast<int32_t>(-1), static_cast<int32_t>(count));
    Finish(offsets, count);
  }

 private:
  __aicore__ inline void Finish(const AscendC::LocalTensor<int32_t>& offsets, uint32_t count) const {
    const int32_t elements = static_cast<int32_t>(count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mins(offsets, offsets, length_, elements);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Adds(offsets, offsets, lead_, elements);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls(offsets, offsets, width_, elements);
    AscendC::PipeBarrier<PIPE_V>();
  }

  int32_t lead_;
  int32_t width_;
  int32_t length_;
};

}  // namespace gather
