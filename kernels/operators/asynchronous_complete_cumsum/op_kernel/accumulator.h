// Running sums on the scalar unit. Integers wrap around; floating sums carry the rounding error along (TwoSum), so a
// long prefix is as exact as its last rounding.
#pragma once
#include "kernel_operator.h"

constexpr uint32_t SLOT_BYTES = 32;  // one core's total in the workspace

class WrappingSum {
 public:
  __aicore__ inline void Reset() { sum_ = 0; }
  template <typename T>
  __aicore__ inline void Add(T value) {
    sum_ += static_cast<uint64_t>(static_cast<int64_t>(value));
  }
  template <typename T>
  __aicore__ inline T Value() const {
    return static_cast<T>(sum_);
  }
  __aicore__ inline void Save(const AscendC::LocalTensor<uint8_t>& slot) const {
    slot.ReinterpretCast<uint64_t>().SetValue(0, sum_);
  }
  __aicore__ inline void AddSaved(const AscendC::LocalTensor<uint8_t>& slot) {
    sum_ += slot.ReinterpretCast<uint64_t>().GetValue(0);
  }

 private:
  uint64_t sum_ = 0;
};

class CompensatedSum {
 public:
  __aicore__ inline void Reset() {
    sum_ = 0.0f;
    error_ = 0.0f;
  }
  __aicore__ inline void Add(float value) {
    const float total = sum_ + value;
    const float seen = total - sum_;
    const float lost = (sum_ - (total - seen)) + (value - seen);
    sum_ = total;
    if (lost == lost) {  // not after an overflow to infinity
      error_ += lost;
    }
  }
  template <typename T>
  __aicore__ inline T Value() const {
    return sum_ + error_;
  }
  __aicore__ inline void Save(const AscendC::LocalTensor<uint8_t>& slot) const {
    AscendC::LocalTensor<float> words = slot.ReinterpretCast<float>();
    words.SetValue(0, sum_);
    words.SetValue(1, error_);
  }
  __aicore__ inline void AddSaved(const AscendC::LocalTensor<uint8_t>& slot) {
    AscendC::LocalTensor<float> words = slot.ReinterpretCast<float>();
    Add(words.GetValue(0));
    Add(words.GetValue(1));
  }

 private:
  float sum_ = 0.0f;
  float error_ = 0.0f;
};
