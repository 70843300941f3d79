// A table by distance, turned: entries for keys that follow each other follow each other, so that a row of a tile is
// one stretch of it. [HSTU_TURN of lead, entry n - 1, ..., entry 0, then HSTU_TILE_SIDE times entry 0 for later keys].
#pragma once
#include "hstu_vector.h"

namespace hstu {

class TurnedTable {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const HstuTilingData& tiling) {
    positions_ = tiling.relative.positions;
    elements_ = static_cast<int64_t>(tiling.relative.turnedElements);
    const uint32_t bytes = static_cast<uint32_t>(HSTU_TURN * static_cast<int64_t>(sizeof(float)));
    pipe->InitBuffer(offsets_, bytes);
    pipe->InitBuffer(from_, bytes);
    pipe->InitBuffer(to_, bytes);
    AscendC::LocalTensor<uint32_t> offsets = offsets_.Get<uint32_t>();
    for (int64_t i = 0; i < HSTU_TURN; ++i) {
      offsets.SetValue(static_cast<uint32_t>(i),
                       static_cast<uint32_t>((HSTU_TURN - 1 - i) * static_cast<int64_t>(sizeof(float))));
    }
    WaitFor<AscendC::HardEvent::S_V>();
  }

  // Where the entries of a query for keys from `column` on begin; `base`: its position, or the targets'.
  __aicore__ inline int64_t Place(int64_t base, int64_t column) const {
    return HSTU_TURN + Least(positions_ - 1 - base + column, positions_ - 1);
  }
  // Where HSTU_TURN entries of distances from `distance` on lie.
  __aicore__ inline int64_t PlaceOf(int64_t distance) const { return positions_ - distance; }
  __aicore__ inline int64_t PlaceOfTail() const { return HSTU_TURN + positions_; }

  // Writes the turned copy of a table.
  __aicore__ inline void Write(const AscendC::GlobalTensor<float>& table, const AscendC::GlobalTensor<float>& turned) {
    for (int64_t distance = 0; distance < positions_; distance += HSTU_TURN) {
      const int64_t bytes = Least(HSTU_TURN, positions_ - distance) * static_cast<int64_t>(sizeof(float));
      const int64_t padding = (RoundUp(bytes, 32) - bytes) / static_cast<int64_t>(sizeof(float));
      AscendC::PipeBarrier<PIPE_ALL>();
      AscendC::Duplicate(From(), 0.0f, static_cast<int32_t>(HSTU_TURN));
      WaitFor<AscendC::HardEvent::V_MTE2>();
      AscendC::DataCopyPad(From(), table[static_cast<uint64_t>(distance)],
                           AscendC::DataCopyExtParams(1, static_cast<uint32_t>(bytes), 0, 0, 0),
                           AscendC::DataCopyPadExtParams<float>(true, 0, static_cast<uint8_t>(padding), 0.0f));
      WaitFor<AscendC::HardEvent::MTE2_V>();
      Turn();
      Store(turned[static_cast<uint64_t>(PlaceOf(distance))], HSTU_TURN);
    }
    Fill(turned, PlaceOfTail(), elements_, table.GetValue(0));
  }
  // One value in [from, to) of the table.
  __aicore__ inline void Fill(const AscendC::GlobalTensor<float>& turned, int64_t from, int64_t to, float value) {
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::Duplicate(To(), value, static_cast<int32_t>(HSTU_TURN));
    for (; from < to; from += HSTU_TURN) {
      Store(turned[static_cast<uint64_t>(from)], Least(HSTU_TURN, to - from));
    }
    AscendC::PipeBarrier<PIPE_ALL>();
  }

  // From() turned into To().
  __aicore__ inline void Turn() {
    AscendC::Gather(To(), From(), offsets_.Get<uint32_t>(), 0, static_cast<uint32_t>(HSTU_TURN));
  }
  // The first elements of To().
  __aicore__ inline void Store(const AscendC::GlobalTensor<float>& target, int64_t count) {
    WaitFor<AscendC::HardEvent::V_MTE3>();
    AscendC::DataCopyPad(
        target, To(),
        AscendC::DataCopyExtParams(1, static_cast<uint32_t>(count * static_cast<int64_t>(sizeof(float))), 0, 0, 0));
  }
  __aicore__ inline AscendC::LocalTensor<float> From() { return from_.Get<float>(); }
  __aicore__ inline AscendC::LocalTensor<float> To() { return to_.Get<float>(); }

 private:
  int64_t positions_;
  int64_t elements_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> offsets_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> from_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> to_;
};

}  // namespace hstu
