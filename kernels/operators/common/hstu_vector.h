// Small parts of the vector stages: events, and writing zeros into stretches of rows.
#pragma once
#include "kernel_operator.h"

#include "hstu_halves.h"
#include "hstu_mask.h"

namespace hstu {

template <AscendC::HardEvent event>
__aicore__ inline void WaitFor() {
  const AscendC::TEventID id = GetTPipePtr()->FetchEventID<event>();
  AscendC::SetFlag<event>(id);
  AscendC::WaitFlag<event>(id);
}

// Between a vector instruction and the one that reads its result.
__aicore__ inline void Then() { AscendC::PipeBarrier<PIPE_V>(); }

__aicore__ inline int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Zeros in [from, to) of a float tensor. Vector instructions start at whole 32-byte blocks: lanes of the first block
// that stay are left out by a mask.
__aicore__ inline void ZeroRange(const AscendC::LocalTensor<float>& tensor, int64_t from, int64_t to) {
  constexpr int64_t BLOCK = 8;
  constexpr int64_t REPEAT = 64;
  if (from >= to) {
    return;
  }
  const int64_t start = from / BLOCK * BLOCK;
  int64_t rest = start;
  if (start != from) {
    const int64_t lanes = Least(to - start, REPEAT);
    const uint64_t below = lanes == REPEAT ? ~0ull : (1ull << lanes) - 1;
    uint64_t mask[2] = {below & ~((1ull << (from - start)) - 1), 0};
    AscendC::Duplicate(tensor[static_cast<uint32_t>(start)], 0.0f, mask, 1, 1, 8);
    rest = start + lanes;
  }
  if (rest < to) {
    AscendC::Duplicate(tensor[static_cast<uint32_t>(rest)], 0.0f, static_cast<int32_t>(to - rest));
  }
}

// Cells of a tile's strip that are not visible become zero, whatever they held: `rows` rows of `pitch`, the first one
// at query position `row`, columns from key position `column` on.
__aicore__ inline void CutRows(const AscendC::LocalTensor<float>& strip, const Mask& mask, int64_t row, int64_t rows,
                               int64_t column, int64_t columns, int64_t pitch) {
  for (int64_t r = 0; r < rows; ++r) {
    const RowView view = mask.Row(row + r);
    const int64_t base = r * pitch;
    const int64_t a0 = Within(view.a0 - column, 0, columns);
    const int64_t a1 = Within(view.a1 - column, a0, columns);
    const int64_t b0 = Within(view.b0 - column, a1, columns);
    const int64_t b1 = Within(view.b1 - column, b0, columns);
    ZeroRange(strip, base, base + a0);
    ZeroRange(strip, base + a1, base + b0);
    ZeroRange(strip, base + b1, base + columns);
  }
}

}  // namespace hstu
