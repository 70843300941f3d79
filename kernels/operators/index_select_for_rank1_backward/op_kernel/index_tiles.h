// Reads (index, gradient) pairs tile by tile and adds each gradient, as a float, to the sum that its index names.
#pragma once
#include <type_traits>

#include "kernel_operator.h"

namespace rank1 {

template <AscendC::HardEvent event>
__aicore__ inline void Fence() {
  const int32_t id = static_cast<int32_t>(GetTPipePtr()->FetchEventID(event));
  AscendC::SetFlag<event>(id);
  AscendC::WaitFlag<event>(id);
}

__aicore__ inline AscendC::DataCopyExtParams Burst(uint32_t elements, uint32_t width) {
  return AscendC::DataCopyExtParams(1, elements * width, 0, 0, 0);
}

template <typename T, typename Index>
class IndexTiles {
 public:
  static constexpr bool WIDENED = !std::is_same<T, float>::value;

  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR gradY, GM_ADDR index, int64_t count,
                              uint32_t tileElements) {
    tileElements_ = tileElements;
    grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(gradY), static_cast<uint64_t>(count));
    index_.SetGlobalBuffer(reinterpret_cast<__gm__ Index*>(index), static_cast<uint64_t>(count));
    pipe->InitBuffer(indices_, tileElements * sizeof(Index));
    pipe->InitBuffer(grads_, tileElements * sizeof(T));
    if constexpr (WIDENED) {
      pipe->InitBuffer(wide_, tileElements * sizeof(float));
    }
  }

  __aicore__ inline int64_t IndexAt(int64_t at) const {
    return static_cast<int64_t>(index_.GetValue(static_cast<uint64_t>(at)));
  }

  // sums[index - low] += gradient for entries [first, end) whose index is in [low, low + size), in ascending order.
  __aicore__ inline void AddTo(const AscendC::LocalTensor<float>& sums, int64_t low, int64_t size, int64_t first,
                               int64_t end) {
    for (int64_t at = first; at < end; at += tileElements_) {
      const int64_t left = end - at;
      const uint32_t count = left < tileElements_ ? static_cast<uint32_t>(left) : tileElements_;
      const AscendC::LocalTensor<Index> indices = indices_.template Get<Index>();
      const AscendC::LocalTensor<float> grads = Load(static_cast<uint64_t>(at), count);
      for (uint32_t i = 0; i < count; ++i) {
        const int64_t place = static_cast<int64_t>(indices.GetValue(i)) - low;
        if (place >= 0 && place < size) {
          const uint32_t to = static_cast<uint32_t>(place);
          sums.SetValue(to, sums.GetValue(to) + grads.GetValue(i));
        }
      }
      Fence<AscendC::HardEvent::S_MTE2>();
    }
  }

 private:
  // A tile of both, ready for the scalar unit.
  __aicore__ inline AscendC::LocalTensor<float> Load(uint64_t at, uint32_t count) {
    AscendC::LocalTensor<T> grads = grads_.template Get<T>();
    AscendC::DataCopyPad(indices_.template Get<Index>(), index_[at], Burst(count, sizeof(Index)),
                         AscendC::DataCopyPadExtParams<Index>(false, 0, 0, 0));
    AscendC::DataCopyPad(grads, grad_[at], Burst(count, sizeof(T)), AscendC::DataCopyPadExtParams<T>(false, 0, 0, T()));
    if constexpr (WIDENED) {
      AscendC::LocalTensor<float> wide = wide_.template Get<float>();
      Fence<AscendC::HardEvent::MTE2_V>();
      Fence<AscendC::HardEvent::S_V>();  // the scalar unit is done with the tile before
      AscendC::Cast(wide, grads, AscendC::RoundMode::CAST_NONE, count);
      Fence<AscendC::HardEvent::V_S>();
      Fence<AscendC::HardEvent::MTE2_S>();
      return wide;
    } else {
      Fence<AscendC::HardEvent::MTE2_S>();
      return grads;
    }
  }

  uint32_t tileElements_;
  AscendC::GlobalTensor<T> grad_;
  AscendC::GlobalTensor<Index> index_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> indices_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> grads_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> wide_;
};

}  // namespace rank1
