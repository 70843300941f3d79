// Layer norm without weights, and its gradient, of strips of whole rows.
#pragma once
#include "layer_strips.h"

namespace layer {

class Norm {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, uint32_t width, float eps) {
    width_ = width;
    eps_ = eps;
    constexpr uint32_t BYTES = LAYER_ROWS * static_cast<uint32_t>(sizeof(float));
    pipe->InitBuffer(lanes_, BYTES * LAYER_LANES);
    pipe->InitBuffer(fewer_, BYTES * LAYER_LANES);
    pipe->InitBuffer(mean_, BYTES);
    pipe->InitBuffer(slope_, BYTES);
    pipe->InitBuffer(inverse_, BYTES);
    pipe->InitBuffer(lane_, BYTES);
    pipe->InitBuffer(places_, BYTES);
    const AscendC::LocalTensor<uint32_t> places = places_.Get<uint32_t>();
    for (uint32_t row = 0; row < LAYER_ROWS; ++row) {
      places.SetValue(row, row * LAYER_LANES * static_cast<uint32_t>(sizeof(float)));
    }
    WaitFor<AscendC::HardEvent::S_V>();
  }

  // x = (x - mean) / deviation in each row; `scratch`: as many elements. Keeps the inverse of the deviations.
  __aicore__ inline void Apply(const Floats& x, const Floats& scratch, uint32_t rows) {
    const uint32_t pitch = PitchOf(width_);
    const int32_t count = static_cast<int32_t>(rows * pitch);
    const Floats mean = mean_.Get<float>();
    const Floats inverse = inverse_.Get<float>();
    Mean(mean, x, rows);
    WaitFor<AscendC::HardEvent::V_S>();
    for (uint32_t row = 0; row < rows; ++row) {
      AscendC::Adds(x[row * pitch], x[row * pitch], -mean.GetValue(row), static_cast<int32_t>(pitch));
    }
    HaveRead();
    AscendC::Mul(scratch, x, x, count);
    Then();
    Mean(inverse, scratch, rows);
    AscendC::Adds(inverse, inverse, eps_, static_cast<int32_t>(rows));
    Then();
    AscendC::Sqrt(inverse, inverse, static_cast<int32_t>(rows));
    AscendC::Duplicate(mean, 1.0f, static_cast<int32_t>(rows));
    Then();
    AscendC::Div(inverse, mean, inverse, static_cast<int32_t>(rows));
    Scale(x, inverse, rows);
  }

  // The gradient of the rows that Apply took last, in place of that of their norm. `normed` is lost.
  __aicore__ inline void Backward(const Floats& gradient, const Floats& normed, const Floats& scratch, uint32_t rows) {
    const uint32_t pitch = PitchOf(width_);
    const int32_t count = static_cast<int32_t>(rows * pitch);
    const Floats mean = mean_.Get<float>();
    const Floats slope = slope_.Get<float>();
    AscendC::Mul(scratch, gradient, normed, count);
    Then();
    Mean(mean, gradient, rows);
    Mean(slope, scratch, rows);
    WaitFor<AscendC::HardEvent::V_S>();
    for (uint32_t row = 0; row < rows; ++row) {
      AscendC::Adds(gradient[row * pitch], gradient[row * pitch], -mean.GetValue(row), static_cast<int32_t>(pitch));
      AscendC::Muls(normed[row * pitch], normed[row * pitch], slope.GetValue(row), static_cast<int32_t>(pitch));
    }
    HaveRead();
    AscendC::Sub(gradient, gradient, normed, count);
    Scale(gradient, inverse_.Get<float>(), rows);
  }

 private:
  __aicore__ inline void Scale(const Floats& x, const Floats& factors, uint32_t rows) {
    const uint32_t pitch = PitchOf(width_);
    Then();
    WaitFor<AscendC::HardEvent::V_S>();
    for (uint32_t row = 0; row < rows; ++row) {
      AscendC::Muls(x[row * pitch], x[row * pitch], factors.GetValue(row), static_cast<int32_t>(pitch));
    }
    HaveRead();
  }

  // Of vector instructions with scalars of rows: before the next ones, which may write where the scalars stood.
  __aicore__ inline static void HaveRead() {
    WaitFor<AscendC::HardEvent::S_V>();
    Then();
  }

  // to[row] = the mean of a row: 64 sums a row, then 8, which are gathered across the rows.
  __aicore__ inline void Mean(const Floats& to, const Floats& x, uint32_t rows) {
    constexpr uint32_t LANES = LAYER_LANES;
    const Floats lanes = lanes_.Get<float>();
    const Floats fewer = fewer_.Get<float>();
    const Floats lane = lane_.Get<float>();
    const AscendC::LocalTensor<uint32_t> places = places_.Get<uint32_t>();
    const uint32_t pitch = PitchOf(width_);
    const uint8_t repeats = static_cast<uint8_t>(width_ / LANES);
    const uint32_t tail = width_ % LANES;
    const AscendC::BinaryRepeatParams chain(1, 1, 1, 0, 8, 0);  // all repeats add to one line of sums
    const AscendC::BinaryRepeatParams lines(1, 1, 1, 8, 8, 8);
    AscendC::Duplicate(lanes, 0.0f, static_cast<int32_t>(rows * LANES));
    Then();
    for (uint32_t row = 0; row < rows; ++row) {
      const Floats sums = lanes[row * LANES];
      if (repeats != 0) {
        AscendC::Add(sums, x[row * pitch], sums, LANES, repeats, chain);
      }
    }
    if (tail != 0) {
      Then();
      for (uint32_t row = 0; row < rows; ++row) {
        const Floats sums = lanes[row * LANES];
        AscendC::Add(sums, x[row * pitch + repeats * LANES], sums, tail, 1, lines);
      }
    }
    Then();
    const uint8_t count = static_cast<uint8_t>(rows);
    AscendC::Add(fewer, lanes, lanes[32], 32, count, lines);
    Then();
    AscendC::Add(lanes, fewer, fewer[16], 16, count, lines);
    Then();
    AscendC::Add(fewer, lanes, lanes[8], 8, count, lines);
    Then();
    AscendC::Gather(to, fewer, places, 0, rows);
    for (uint32_t i = 1; i < 8; ++i) {
      AscendC::Gather(lane, fewer, places, i * static_cast<uint32_t>(sizeof(float)), rows);
      Then();
      AscendC::Add(to, to, lane, static_cast<int32_t>(rows));
      Then();
    }
    AscendC::Muls(to, to, 1.0f / static_cast<float>(width_), static_cast<int32_t>(rows));
    Then();
  }

  uint32_t width_;
  float eps_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> lanes_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> fewer_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> mean_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> slope_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> inverse_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> lane_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> places_;
};

}  // namespace layer
