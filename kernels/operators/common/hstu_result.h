// Rows of a result: sums in the workspace rounded to the result's type, and rows of zeros.
#pragma once
#include "hstu_vector.h"

namespace hstu {

constexpr int64_t SUM_UNIT = 16;  // zeros are written in multiples of this many elements

// A [rows, heads, width] output in T. Sums of float results are added in place by the cube.
template <typename T>
class Result {
 public:
  static constexpr bool inPlace = sizeof(T) == sizeof(float);

  __aicore__ inline void Init(GM_ADDR address, int64_t rows, int64_t heads, int64_t width, uint32_t stripElements) {
    heads_ = heads;
    width_ = width;
    pitch_ = RoundUp(width, 32 / static_cast<int64_t>(sizeof(T)));  // rows of whole blocks, rounded or not
    strip_ = stripElements;
    target_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(address), static_cast<uint64_t>(rows * heads * width));
  }
  // Distance of two rows of one head, and of two rows of sums in the workspace.
  __aicore__ inline int64_t RowPitch() const { return heads_ * width_; }
  __aicore__ inline int64_t SumPitch() const { return pitch_; }
  __aicore__ inline AscendC::GlobalTensor<T> At(int64_t row, int64_t head) const {
    return target_[static_cast<uint64_t>((row * heads_ + head) * width_)];
  }

  // Rounds `rows` rows of sums in the workspace to the result's rows from `row` on.
  template <typename InQueue, typename OutQueue>
  __aicore__ inline void Round(const AscendC::GlobalTensor<float>& sums, int64_t row, int64_t head, int64_t rows,
                               InQueue& in, OutQueue& out) {
    const int64_t atOnce = Least(strip_ / pitch_, 4095);
    for (int64_t from = 0; from < rows; from += atOnce) {
      const int64_t count = Least(atOnce, rows - from);
      AscendC::LocalTensor<float> strip = in.template AllocTensor<float>();
      AscendC::DataCopy(strip, sums[static_cast<uint64_t>(from * pitch_)], static_cast<uint32_t>(count * pitch_));
      in.EnQue(strip);
      strip = in.template DeQue<float>();
      Round(strip, row + from, head, count, out);
      in.FreeTensor(strip);
    }
  }
  // The same for a strip of sums in local memory.
  template <typename OutQueue>
  __aicore__ inline void Round(const AscendC::LocalTensor<float>& sums, int64_t row, int64_t head, int64_t rows,
                               OutQueue& out) {
    AscendC::LocalTensor<T> rounded = out.template AllocTensor<T>();
    if constexpr (inPlace) {
      AscendC::Adds(rounded, sums, 0.0f, static_cast<int32_t>(rows * pitch_));
    } else {
      AscendC::Cast(rounded, sums, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(rows * pitch_));
    }
    out.EnQue(rounded);
    Store(out, row, head, rows);
  }

  // Zeros for one head of rows [row, row + rows).
  template <typename OutQueue>
  __aicore__ inline void Zero(int64_t row, int64_t head, int64_t rows, OutQueue& out) {
    const int64_t atOnce = Least(strip_ / pitch_, 4095);
    for (int64_t from = 0; from < rows; from += atOnce) {
      const int64_t count = Least(atOnce, rows - from);
      FillZeros(out, count * pitch_);
      Store(out, row + from, head, count);
    }
  }
  // Zeros for all heads of rows [row, end).
  template <typename OutQueue>
  __aicore__ inline void ZeroRows(int64_t row, int64_t end, OutQueue& out) {
    const int64_t last = end * heads_ * width_;
    for (int64_t from = row * heads_ * width_; from < last; from += strip_) {
      const int64_t count = Least(strip_, last - from);
      FillZeros(out, RoundUp(count, SUM_UNIT));
      AscendC::LocalTensor<T> zeros = out.template DeQue<T>();
      AscendC::DataCopyPad(
          target_[static_cast<uint64_t>(from)], zeros,
          AscendC::DataCopyExtParams(1, static_cast<uint32_t>(count * static_cast<int64_t>(sizeof(T))), 0, 0, 0));
      out.FreeTensor(zeros);
    }
  }

 private:
  template <typename OutQueue>
  __aicore__ inline void FillZeros(OutQueue& out, int64_t count) {
    AscendC::LocalTensor<T> zeros = out.template AllocTensor<T>();
    AscendC::Duplicate(zeros.template ReinterpretCast<int32_t>(), 0,
                       static_cast<int32_t>(count * static_cast<int64_t>(sizeof(T)) / 4));
    out.EnQue(zeros);
  }
  template <typename OutQueue>
  __aicore__ inline void Store(OutQueue& out, int64_t row, int64_t head, int64_t rows) {
    AscendC::LocalTensor<T> strip = out.template DeQue<T>();
    const int64_t bytes = width_ * static_cast<int64_t>(sizeof(T));
    const int64_t padded = pitch_ * static_cast<int64_t>(sizeof(T));
    AscendC::DataCopyPad(
        At(row, head), strip,
        AscendC::DataCopyExtParams(static_cast<uint16_t>(rows), static_cast<uint32_t>(bytes),
                                   static_cast<uint32_t>((padded - RoundUp(bytes, 32)) / 32),
                                   static_cast<uint32_t>((RowPitch() - width_) * static_cast<int64_t>(sizeof(T))), 0));
    out.FreeTensor(strip);
  }

  AscendC::GlobalTensor<T> target_;
  int64_t heads_;
  int64_t width_;
  int64_t pitch_;
  int64_t strip_;
};

}  // namespace hstu
