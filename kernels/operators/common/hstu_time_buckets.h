// Time buckets of the relative bias: from how many seconds on each holds, and its learned number.
#pragma once
#include "hstu_vector.h"

namespace hstu {

// Both tables, for the scalar unit. The caller gives buckets by cells: the upper 12 bits of a float32 from 1 on name
// one of 512 cells; the lower half of its entry is the bucket at its start, the upper half a float32 from which on it
// is the next bucket. So the buckets are steps of the float32 nearest to the seconds.
class TimeBuckets {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR cells, GM_ADDR time, int64_t count) {
    const uint32_t bytes = static_cast<uint32_t>(RoundUp(count * static_cast<int64_t>(sizeof(float)), 32));
    pipe->InitBuffer(edges_, bytes);
    pipe->InitBuffer(values_, bytes);
    AscendC::GlobalTensor<int64_t> entries;
    entries.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(cells), HSTU_CELLS);
    AscendC::GlobalTensor<float> table;
    table.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(time), static_cast<uint64_t>(count));
    AscendC::LocalTensor<float> values = values_.Get<float>();
    for (int64_t bucket = 0; bucket < count; ++bucket) {
      values.SetValue(static_cast<uint32_t>(bucket), table.GetValue(static_cast<uint64_t>(bucket)));
    }
    count_ = FindEdges(entries, count);
  }

  // Buckets that some number of seconds reaches.
  __aicore__ inline int64_t Count() const { return count_; }
  // The least seconds of bucket 1 and up.
  __aicore__ inline float Edge(int64_t bucket) const {
    return edges_.Get<float>().GetValue(static_cast<uint32_t>(bucket));
  }
  __aicore__ inline float Value(int64_t bucket) const {
    return values_.Get<float>().GetValue(static_cast<uint32_t>(bucket));
  }
  __aicore__ inline int64_t Of(float seconds) const {
    int64_t low = 0;
    int64_t high = count_ - 1;
    while (low < high) {
      const int64_t middle = (low + high + 1) / 2;
      if (seconds >= Edge(middle)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

 private:
  static constexpr int64_t FIRST_CELL = 1016;  // of 1.0f, whose bits are 1016 << 20
  static constexpr int64_t INFINITE = 0x7F800000;
  static constexpr int64_t LOWEST = 0xFF7FFFFF;  // bits of the least float32: a time that goes backward is in cell 0

  __aicore__ inline int64_t FindEdges(const AscendC::GlobalTensor<int64_t>& entries, int64_t count) const {
    AscendC::LocalTensor<int32_t> bits = edges_.Get<int32_t>();
    int64_t known = 1;
    for (int64_t cell = 0; cell < HSTU_CELLS; ++cell) {
      const int64_t entry = entries.GetValue(static_cast<uint64_t>(cell));
      const int64_t bucket = entry & 0xFFFF;
      const int64_t start = cell == 0 ? LOWEST : (cell + FIRST_CELL) << 20;
      for (; known <= bucket && known < count; ++known) {
        bits.SetValue(static_cast<uint32_t>(known), static_cast<int32_t>(start));
      }
      const int64_t edge = entry >> 32;
      if (edge >= 0 && edge < INFINITE && known == bucket + 1 && known < count) {
        bits.SetValue(static_cast<uint32_t>(known++), static_cast<int32_t>(edge));
      }
    }
    return known;
  }

  int64_t count_;
  mutable AscendC::TBuf<AscendC::TPosition::VECCALC> edges_;
  mutable AscendC::TBuf<AscendC::TPosition::VECCALC> values_;
};

}  // namespace hstu
