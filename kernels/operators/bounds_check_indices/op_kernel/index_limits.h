// Tells on the vector unit whether all indices of a tile are inside [-1, rows): almost always they are.
#pragma once
#include "kernel_operator.h"

#include "violations.h"

namespace bounds {

class IndexLimits {
 public:
  static constexpr uint32_t LANES = 64;   // int32 lanes of a repeat
  static constexpr uint32_t WORTH = 128;  // indices; fewer are looked at one by one
  static constexpr int64_t LARGEST = 0x7fffffff;

  __aicore__ inline void Init(AscendC::TPipe* pipe, uint32_t tile) {
    pipe->InitBuffer(words_, tile * sizeof(int32_t));
    pipe->InitBuffer(high_, LANES * sizeof(int32_t));
    pipe->InitBuffer(low_, LANES * sizeof(int32_t));
  }

  // The indices have arrived for the vector unit. 64-bit ones saturate; false where that leaves a doubt.
  template <typename Index>
  __aicore__ inline bool AllInside(const AscendC::LocalTensor<Index>& indices, uint32_t count, int64_t rows) {
    const AscendC::LocalTensor<int32_t> words = words_.template Get<int32_t>();
    const AscendC::LocalTensor<int32_t> high = high_.template Get<int32_t>();
    const AscendC::LocalTensor<int32_t> low = low_.template Get<int32_t>();
    const uint32_t repeats = (count + LANES - 1) / LANES;
    Fence<AscendC::HardEvent::S_V>();  // the scalar unit has read the extremes of the tile before
    AscendC::Duplicate<int32_t>(words[(repeats - 1) * LANES], -1, static_cast<int32_t>(LANES));
    AscendC::Duplicate<int32_t>(high, -1, static_cast<int32_t>(LANES));
    AscendC::Duplicate<int32_t>(low, static_cast<int32_t>(LARGEST), static_cast<int32_t>(LANES));
    AscendC::PipeBarrier<PIPE_V>();
    ToWords(words, indices, count);
    AscendC::PipeBarrier<PIPE_V>();
    // Each repeat is folded into the one block of extremes.
    const AscendC::BinaryRepeatParams fold(1, 1, 1, 0, 8, 0);
    AscendC::Max(high, words, high, static_cast<uint64_t>(LANES), static_cast<uint8_t>(repeats), fold);
    AscendC::Min(low, words, low, static_cast<uint64_t>(LANES), static_cast<uint8_t>(repeats), fold);
    AscendC::PipeBarrier<PIPE_V>();
    for (uint32_t half = LANES / 2; half >= 8; half /= 2) {
      AscendC::Max(high, high, high[half], static_cast<int32_t>(half));
      AscendC::Min(low, low, low[half], static_cast<int32_t>(half));
      AscendC::PipeBarrier<PIPE_V>();
    }
    Fence<AscendC::HardEvent::V_S>();
    int64_t largest = high.GetValue(0);
    int64_t smallest = low.GetValue(0);
    for (uint32_t i = 1; i < 8; ++i) {
      largest = -Smaller(-largest, -static_cast<int64_t>(high.GetValue(i)));
      smallest = Smaller(smallest, low.GetValue(i));
    }
    const bool doubtful = sizeof(Index) == sizeof(int64_t) && largest == LARGEST && rows > LARGEST;
    return !doubtful && smallest >= -1 && largest < rows;
  }

 private:
  __aicore__ inline void ToWords(const AscendC::LocalTensor<int32_t>& words,
                                 const AscendC::LocalTensor<int32_t>& indices, uint32_t count) {
    AscendC::Adds(words, indices, static_cast<int32_t>(0), static_cast<int32_t>(count));
  }
  __aicore__ inline void ToWords(const AscendC::LocalTensor<int32_t>& words,
                                 const AscendC::LocalTensor<int64_t>& indices, uint32_t count) {
    AscendC::Cast(words, indices, AscendC::RoundMode::CAST_NONE, count);
  }

  AscendC::TBuf<AscendC::TPosition::VECCALC> words_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> high_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> low_;
};

}  // namespace bounds
