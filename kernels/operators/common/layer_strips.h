// Strips: some whole rows, or some columns of them, as fp32 in local memory, whatever type they have in global memory.
// Rows are padded to LAYER_UNIT elements there; what stands beyond the columns is 0 when a strip has just been fetched.
#pragma once
#include <type_traits>

#include "kernel_operator.h"

#include "layer_tiling.h"

namespace layer {

using Floats = AscendC::LocalTensor<float>;

template <AscendC::HardEvent event>
__aicore__ inline void WaitFor() {
  const AscendC::TEventID id = GetTPipePtr()->FetchEventID<event>();
  AscendC::SetFlag<event>(id);
  AscendC::WaitFlag<event>(id);
}

// Between a vector instruction and the one that reads its result.
__aicore__ inline void Then() { AscendC::PipeBarrier<PIPE_V>(); }

__aicore__ inline uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }
__aicore__ inline uint32_t RoundUp(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }
__aicore__ inline uint32_t PitchOf(uint32_t columns) { return RoundUp(columns, LAYER_UNIT); }

// `rows` rows of `columns` elements, `pitch` elements apart in global memory.
struct Shape {
  uint32_t rows;
  uint32_t columns;
  uint64_t pitch;

  __aicore__ inline int32_t Elements() const { return static_cast<int32_t>(rows * PitchOf(columns)); }
};

// T: the widest type that is stored.
template <typename T>
class Strips {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, uint32_t elements) {
    elements_ = elements;
    pipe->InitBuffer(in_, 3, elements * static_cast<uint32_t>(sizeof(float)));
    pipe->InitBuffer(out_, 2, elements * static_cast<uint32_t>(sizeof(T)));
  }
  // Rows of this width that a strip holds.
  __aicore__ inline uint32_t Rows(uint32_t columns) const {
    return Least(elements_ / RoundUp(columns, 2 * LAYER_UNIT), LAYER_ROWS);
  }

  template <typename S>
  __aicore__ inline void Fetch(const Floats& to, const AscendC::GlobalTensor<S>& from, const Shape& shape) {
    AscendC::LocalTensor<S> strip = Load(from, shape, LAYER_UNIT);
    if constexpr (std::is_same<S, float>::value) {
      AscendC::Muls(to, strip, 1.0f, shape.Elements());
    } else {
      AscendC::Cast(to, strip, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(shape.Elements()));
    }
    in_.FreeTensor(strip);
    Then();
  }

  // Rows in halves: those of their left columns and those of their right ones, each densely packed.
  __aicore__ inline void FetchHalves(const Floats& to, const AscendC::GlobalTensor<float>& left,
                                     const AscendC::GlobalTensor<float>& right, uint32_t rows, uint32_t columns) {
    const uint32_t half = columns / 2;
    const uint32_t bytes = half * static_cast<uint32_t>(sizeof(float));
    const AscendC::DataCopyExtParams shape(static_cast<uint16_t>(rows), bytes, 0, bytes / 32, 0);
    const AscendC::DataCopyPadExtParams<float> unpadded(false, 0, 0, 0.0f);
    AscendC::LocalTensor<float> strip = in_.template AllocTensor<float>();
    AscendC::DataCopyPad(strip, left, shape, unpadded);
    AscendC::DataCopyPad(strip[half], right, shape, unpadded);
    in_.EnQue(strip);
    strip = in_.template DeQue<float>();
    AscendC::Muls(to, strip, 1.0f, static_cast<int32_t>(rows * columns));
    in_.FreeTensor(strip);
    Then();
  }

  // Bytes of 0 and 1; `halves`: scratch of the strip's elements.
  __aicore__ inline void FetchBytes(const Floats& to, const AscendC::GlobalTensor<uint8_t>& from, const Shape& shape,
                                    const AscendC::LocalTensor<half>& halves) {
    constexpr uint32_t UNIT = 2 * LAYER_UNIT;  // a block of bytes
    AscendC::LocalTensor<uint8_t> strip = Load(from, shape, UNIT);
    const uint32_t pitch = RoundUp(shape.columns, UNIT);
    AscendC::Cast(halves, strip, AscendC::RoundMode::CAST_NONE, shape.rows * pitch);
    in_.FreeTensor(strip);
    Then();
    const uint32_t narrow = PitchOf(shape.columns);
    if (narrow == pitch) {
      AscendC::Cast(to, halves, AscendC::RoundMode::CAST_NONE, shape.rows * pitch);
    } else {
      for (uint32_t row = 0; row < shape.rows; ++row) {
        AscendC::Cast(to[row * narrow], halves[row * pitch], AscendC::RoundMode::CAST_NONE, narrow);
      }
    }
    Then();
  }

  // Rounds to S, once.
  template <typename S>
  __aicore__ inline void Put(const AscendC::GlobalTensor<S>& to, const Floats& from, const Shape& shape) {
    static_assert(sizeof(S) <= sizeof(T), "a strip of stores is as long as the widest type wants");
    AscendC::LocalTensor<S> strip = out_.template AllocTensor<S>();
    if constexpr (std::is_same<S, float>::value) {
      AscendC::Muls(strip, from, 1.0f, shape.Elements());
    } else {
      AscendC::Cast(strip, from, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(shape.Elements()));
    }
    out_.EnQue(strip);
    strip = out_.template DeQue<S>();
    const uint32_t bytes = shape.columns * static_cast<uint32_t>(sizeof(S));
    const uint32_t padded = PitchOf(shape.columns) * static_cast<uint32_t>(sizeof(S));
    AscendC::DataCopyPad(
        to, strip,
        AscendC::DataCopyExtParams(static_cast<uint16_t>(shape.rows), bytes, (padded - RoundUp(bytes, 32)) / 32,
                                   static_cast<uint32_t>((shape.pitch - shape.columns) * sizeof(S)), 0));
    out_.FreeTensor(strip);
    Then();
  }

 private:
  // Rows padded with zeros to `unit` elements: on the right up to 32 bytes, and the rest of the last block.
  template <typename S>
  __aicore__ inline AscendC::LocalTensor<S> Load(const AscendC::GlobalTensor<S>& from, const Shape& shape,
                                                 uint32_t unit) {
    AscendC::LocalTensor<S> strip = in_.template AllocTensor<S>();
    const uint32_t missing = RoundUp(shape.columns, unit) - shape.columns;
    const uint8_t right = static_cast<uint8_t>(Least(missing, 32 / sizeof(S)));
    AscendC::DataCopyPad(
        strip, from,
        AscendC::DataCopyExtParams(static_cast<uint16_t>(shape.rows), shape.columns * static_cast<uint32_t>(sizeof(S)),
                                   static_cast<uint32_t>((shape.pitch - shape.columns) * sizeof(S)), 0, 0),
        AscendC::DataCopyPadExtParams<S>(right != 0, 0, right, S()));
    in_.EnQue(strip);
    return in_.template DeQue<S>();
  }

  uint32_t elements_;
  AscendC::TQue<AscendC::TPosition::VECIN, 1> in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> out_;
};

}  // namespace layer
