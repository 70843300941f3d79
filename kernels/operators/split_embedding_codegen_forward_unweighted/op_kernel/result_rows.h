// Rows of the result: converted to its type and stored, `count` at a time, from slots that are `pitch` lanes apart.
#pragma once
#include "embedding_tables.h"

constexpr uint32_t RESULT_BUFFERS = 2;

class ResultRows {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR out, int64_t elements, uint32_t type, uint32_t pitch,
                              uint32_t rows) {
    type_ = type;
    pitch_ = pitch;
    floats_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(out), static_cast<uint64_t>(elements));
    halves_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(out), static_cast<uint64_t>(elements));
    bfloats_.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(out), static_cast<uint64_t>(elements));
    pipe->InitBuffer(queue_, RESULT_BUFFERS, rows * pitch * static_cast<uint32_t>(embedding::ElementBytes(type)));
  }

  // Rows of type T as they are or through fp32; `wide` holds their fp32 image where T is another type.
  // Rows whose bit is not set in `valid` become zero. Row j goes to `at` + j * `distance`.
  template <typename T>
  __aicore__ inline void Store(const AscendC::LocalTensor<T>& rows, const AscendC::LocalTensor<float>& wide,
                               int64_t count, int64_t columns, uint64_t valid, int64_t at, int64_t distance) {
    if (type_ == embedding::ELEMENT_FLOAT) {
      StoreAs<float, T>(floats_, rows, wide, count, columns, valid, at, distance);
    } else if (type_ == embedding::ELEMENT_HALF) {
      StoreAs<half, T>(halves_, rows, wide, count, columns, valid, at, distance);
    } else {
      StoreAs<bfloat16_t, T>(bfloats_, rows, wide, count, columns, valid, at, distance);
    }
  }

 private:
  template <typename Out, typename T>
  __aicore__ inline void StoreAs(AscendC::GlobalTensor<Out>& target, const AscendC::LocalTensor<T>& rows,
                                 const AscendC::LocalTensor<float>& wide, int64_t count, int64_t columns,
                                 uint64_t valid, int64_t at, int64_t distance) {
    const uint32_t lanes = static_cast<uint32_t>(count) * pitch_;
    AscendC::LocalTensor<Out> result = queue_.AllocTensor<Out>();
    if constexpr (std::is_same<Out, T>::value) {
      AscendC::DataCopy(result, rows, lanes);  // bit by bit: NaN payloads survive
    } else if constexpr (std::is_same<Out, float>::value) {
      AscendC::DataCopy(result, wide, lanes);
    } else {
      AscendC::Cast(result, wide, AscendC::RoundMode::CAST_RINT, lanes);
    }
    AscendC::PipeBarrier<PIPE_V>();
    for (int64_t j = 0; j < count; ++j) {
      if ((valid >> j & 1ULL) == 0) {
        AscendC::Duplicate<Out>(result[static_cast<uint32_t>(j) * pitch_], Zero<Out>(), static_cast<int32_t>(pitch_));
      }
    }
    queue_.EnQue(result);
    result = queue_.DeQue<Out>();
    const uint32_t rowBytes = static_cast<uint32_t>(columns) * sizeof(Out);
    const uint32_t slotBytes = pitch_ * sizeof(Out);
    const uint32_t gap = (slotBytes - static_cast<uint32_t>(embedding::CeilTo(rowBytes, 32))) / 32;
    const uint32_t skip = static_cast<uint32_t>(distance - columns) * sizeof(Out);
    AscendC::DataCopyPad(target[static_cast<uint64_t>(at)], result,
                         AscendC::DataCopyExtParams(static_cast<uint16_t>(count), rowBytes, gap, skip, 0));
    queue_.FreeTensor(result);
  }

  template <typename Out>
  __aicore__ inline Out Zero() const {
    if constexpr (std::is_same<Out, bfloat16_t>::value) {
      return AscendC::ToBfloat16(0.0f);
    } else {
      return static_cast<Out>(0.0f);
    }
  }

  AscendC::TQue<AscendC::TPosition::VECOUT, RESULT_BUFFERS> queue_;
  AscendC::GlobalTensor<float> floats_;
  AscendC::GlobalTensor<half> halves_;
  AscendC::GlobalTensor<bfloat16_t> bfloats_;
  uint32_t type_;
  uint32_t pitch_;
};
