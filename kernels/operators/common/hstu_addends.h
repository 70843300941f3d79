// Strips of the bias and of the caller's mask beside a strip of scores.
#pragma once
#include "hstu_sequences.h"
#include "hstu_vector.h"

namespace hstu {

// A [rows, pitch] strip of a square input as floats. T: the type of the input.
template <typename T>
class SquareStrip {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR address, const HstuSquare& square, uint32_t stripElements) {
    square_ = square;
    source_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(address));
    pipe->InitBuffer(queue_, 1, stripElements * static_cast<uint32_t>(sizeof(T)));
  }

  // Copies rows [row, row + rows), columns [column, column + columns) of (batch, head) in; the padding is zero.
  __aicore__ inline AscendC::LocalTensor<T> Load(int64_t batch, int64_t head, int64_t row, int64_t rows, int64_t column,
                                                 int64_t columns, int64_t pitch) {
    AscendC::LocalTensor<T> strip = queue_.template AllocTensor<T>();
    if (columns != pitch) {
      AscendC::Duplicate(strip.template ReinterpretCast<int32_t>(), 0,
                         static_cast<int32_t>(rows * pitch * static_cast<int64_t>(sizeof(T)) / 4));
      WaitFor<AscendC::HardEvent::V_MTE2>();
    }
    const int64_t bytes = columns * static_cast<int64_t>(sizeof(T));
    const int64_t image = RoundUp(bytes, 32);
    const AscendC::DataCopyExtParams bursts(
        static_cast<uint16_t>(rows), static_cast<uint32_t>(bytes),
        static_cast<uint32_t>((square_.size - columns) * static_cast<int64_t>(sizeof(T))),
        static_cast<uint32_t>((pitch * static_cast<int64_t>(sizeof(T)) - image) / 32), 0);
    const int64_t from = batch * square_.batchStride + head * square_.headStride + row * square_.size + column;
    const auto padding = static_cast<uint8_t>((image - bytes) / static_cast<int64_t>(sizeof(T)));
    AscendC::DataCopyPad(strip, source_[static_cast<uint64_t>(from)], bursts,
                         AscendC::DataCopyPadExtParams<T>(true, 0, padding, T()));
    queue_.EnQue(strip);
    return queue_.template DeQue<T>();
  }
  __aicore__ inline void Free(AscendC::LocalTensor<T>& strip) { queue_.FreeTensor(strip); }

 private:
  HstuSquare square_;
  AscendC::GlobalTensor<T> source_;
  AscendC::TQue<AscendC::TPosition::VECIN, 1> queue_;
};

// What is added to scores and what multiplies weights; each may be absent. T: the type of q.
template <typename T>
class Addends {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const HstuTilingData& tiling, GM_ADDR mask, GM_ADDR bias) {
    hasBias_ = tiling.bias.present != 0;
    hasMask_ = tiling.mask.present != 0;
    byteMask_ = tiling.mask.bytes == 1;
    const uint32_t strip = tiling.stripElements;
    if (hasBias_) {
      bias_.Init(pipe, bias, tiling.bias, strip);
    }
    if (hasMask_ && byteMask_) {
      bytes_.Init(pipe, mask, tiling.mask, strip);
      pipe->InitBuffer(halves_, strip * static_cast<uint32_t>(sizeof(half)));
    } else if (hasMask_) {
      mask_.Init(pipe, mask, tiling.mask, strip);
    }
    if ((hasBias_ && sizeof(T) != sizeof(float)) || (hasMask_ && (byteMask_ || sizeof(T) != sizeof(float)))) {
      pipe->InitBuffer(floats_, strip * static_cast<uint32_t>(sizeof(float)));
    }
    if (hasMask_) {
      pipe->InitBuffer(bits_, strip / 8);
    }
  }

  // The relative bias (hstu_relative.h) looks at tiles as a whole, and sums gradients; these load what they need.
  __aicore__ inline void OpenTile(const Sequence&, const Mask&, int64_t, int64_t, int64_t, int64_t) {}
  __aicore__ inline void SumGradients(const AscendC::LocalTensor<float>&, int64_t, int64_t, int64_t, int64_t, int64_t) {
  }

  __aicore__ inline void AddBias(const AscendC::LocalTensor<float>& scores, int64_t batch, int64_t head, int64_t row,
                                 int64_t rows, int64_t column, int64_t columns, int64_t pitch) {
    if (!hasBias_) {
      return;
    }
    AscendC::LocalTensor<T> strip = bias_.Load(batch, head, row, rows, column, columns, pitch);
    const int32_t count = static_cast<int32_t>(rows * pitch);
    AscendC::Add(scores, scores, Widened(strip, count), count);
    Then();
    bias_.Free(strip);
  }

  // Loads the mask of a strip; Multiply applies it to one or more tensors, Done gives it back.
  __aicore__ inline void LoadMask(int64_t batch, int64_t head, int64_t row, int64_t rows, int64_t column,
                                  int64_t columns, int64_t pitch) {
    if (!hasMask_) {
      return;
    }
    count_ = static_cast<int32_t>(rows * pitch);
    if (byteMask_) {
      AscendC::LocalTensor<uint8_t> strip = bytes_.Load(batch, head, row, rows, column, columns, pitch);
      AscendC::LocalTensor<half> halves = halves_.Get<half>();
      weights_ = floats_.Get<float>();
      AscendC::Cast(halves, strip, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(count_));
      Then();
      AscendC::Cast(weights_, halves, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(count_));
      Then();
      bytes_.Free(strip);
    } else {
      loaded_ = mask_.Load(batch, head, row, rows, column, columns, pitch);
      weights_ = Widened(loaded_, count_);
    }
    AscendC::CompareScalar(bits_.Get<uint8_t>(), weights_, 0.0f, AscendC::CMPMODE::NE, static_cast<uint32_t>(count_));
    Then();
  }
  // A weight of 0 selects 0: what it would multiply may be infinite.
  __aicore__ inline void Multiply(const AscendC::LocalTensor<float>& tensor) {
    if (!hasMask_) {
      return;
    }
    AscendC::Mul(tensor, tensor, weights_, count_);
    Then();
    AscendC::Select(tensor, bits_.Get<uint8_t>(), tensor, 0.0f, AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE,
                    static_cast<uint32_t>(count_));
    Then();
  }
  __aicore__ inline void Done() {
    if (hasMask_ && !byteMask_) {
      mask_.Free(loaded_);
    }
  }

 private:
  __aicore__ inline AscendC::LocalTensor<float> Widened(const AscendC::LocalTensor<T>& strip, int32_t count) {
    if constexpr (sizeof(T) == sizeof(float)) {
      return strip;
    } else {
      AscendC::LocalTensor<float> floats = floats_.Get<float>();
      AscendC::Cast(floats, strip, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(count));
      Then();
      return floats;
    }
  }

  bool hasBias_;
  bool hasMask_;
  bool byteMask_;
  int32_t count_;
  SquareStrip<T> bias_;
  SquareStrip<T> mask_;
  SquareStrip<uint8_t> bytes_;
  AscendC::LocalTensor<T> loaded_;
  AscendC::LocalTensor<float> weights_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> floats_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> halves_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> bits_;
};

}  // namespace hstu
