// Tells on the vector unit whether one of many lengths is negative or absurd: all their bits are collected.
#pragma once
#include "kernel_operator.h"

#include "data_faults.h"
#include "feature_blocks.h"

namespace permute {

template <typename Length>
class LengthBits {
 public:
  static constexpr int64_t LONGEST = int64_t(1) << 40;  // no tensor has more rows; sums below it cannot overflow

  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR lengths, int64_t count) {
    lengths_.SetGlobalBuffer(reinterpret_cast<__gm__ Length*>(lengths), static_cast<uint64_t>(count));
    pipe->InitBuffer(tile_, TILE_BYTES);
  }

  // Tells of the first bad one of [first, end). columns: of a row of lengths, 0 for a vector.
  __aicore__ inline void Look(int64_t first, int64_t end, int64_t columns, fault::Reporter& reporter) {
    for (int64_t at = first; at < end && !reporter.Silent(); at += TILE) {
      const uint32_t count = static_cast<uint32_t>(Smaller(end - at, TILE));
      if (AreBad(Collect(at, count))) {
        TellOf(at, count, columns, reporter);
      }
    }
  }

 private:
  static constexpr uint32_t TILE_BYTES = 8192;
  static constexpr int64_t TILE = TILE_BYTES / sizeof(Length);
  static constexpr uint32_t LANES = TILE_BYTES / sizeof(uint16_t);
  static constexpr uint32_t BLOCK_LANES = 32 / sizeof(uint16_t);
  static constexpr uint32_t PER_BLOCK = 32 / sizeof(Length);

  static __aicore__ inline bool AreBad(int64_t bits) { return bits < 0 || bits >= LONGEST; }

  // All bits that are set in one of `count` lengths; those of int32 keep their sign.
  __aicore__ inline int64_t Collect(int64_t at, uint32_t count) {
    const AscendC::LocalTensor<uint16_t> lanes = tile_.template Get<uint16_t>();
    const AscendC::LocalTensor<Length> tile = tile_.template Get<Length>();
    Fence<AscendC::HardEvent::S_V>();
    AscendC::Duplicate<uint16_t>(lanes, uint16_t(0), static_cast<int32_t>(LANES));
    Fence<AscendC::HardEvent::V_MTE2>();
    const uint8_t padding = static_cast<uint8_t>((PER_BLOCK - count % PER_BLOCK) % PER_BLOCK);
    AscendC::DataCopyPad(tile, lengths_[static_cast<uint64_t>(at)],
                         AscendC::DataCopyExtParams(1, count * static_cast<uint32_t>(sizeof(Length)), 0, 0, 0),
                         AscendC::DataCopyPadExtParams<Length>(true, 0, padding, Length(0)));
    Fence<AscendC::HardEvent::MTE2_V>();
    for (uint32_t half = LANES / 2; half >= BLOCK_LANES; half /= 2) {
      AscendC::Or(lanes, lanes, lanes[half], static_cast<int32_t>(half));
      AscendC::PipeBarrier<PIPE_V>();
    }
    Fence<AscendC::HardEvent::V_S>();
    Length bits = 0;
    for (uint32_t i = 0; i < PER_BLOCK; ++i) {
      bits |= tile.GetValue(i);
    }
    return static_cast<int64_t>(bits);
  }

  __aicore__ inline void TellOf(int64_t first, uint32_t count, int64_t columns, fault::Reporter& reporter) {
    for (int64_t at = first; at < first + count; ++at) {
      const int64_t length = static_cast<int64_t>(lengths_.GetValue(static_cast<uint64_t>(at)));
      if (AreBad(length)) {
        reporter.Tell(length < 0 ? fault::NEGATIVE : fault::TOO_LONG, fault::LENGTHS, at, length, columns);
        return;
      }
    }
  }

  template <AscendC::HardEvent event>
  static __aicore__ inline void Fence() {
    const int32_t id = static_cast<int32_t>(GetTPipePtr()->FetchEventID(event));
    AscendC::SetFlag<event>(id);
    AscendC::WaitFlag<event>(id);
  }

  AscendC::GlobalTensor<Length> lengths_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> tile_;
};

}  // namespace permute
