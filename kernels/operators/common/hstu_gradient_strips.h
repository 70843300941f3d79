// The vector stage of the backward pass: strips of scores X and of dP = dO V^T become weights P and score gradients
//   dX = alpha scale m dP sigma (1 + s (1 - sigma)),   s = alpha (X + bias),   sigma = 1 / (1 + exp(-s)).
#pragma once
#include "hstu_addends.h"

namespace hstu {

// A tile of scores: queries [row, row + rows) against keys [column, column + columns), `pitch` elements per row.
struct Grid {
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
  int64_t rows = 0;
  int64_t column = 0;
  int64_t columns = 0;
  int64_t pitch = 0;
  bool full = false;  // every cell is visible

  // The stretch of rows [from, from + count).
  __aicore__ inline Grid Rows(int64_t from, int64_t count) const {
    Grid strip = *this;
    strip.row = row + from;
    strip.rows = count;
    return strip;
  }
  __aicore__ inline int32_t Count() const { return static_cast<int32_t>(rows * pitch); }
};

template <typename T, typename Added = Addends<T>>
class GradientStrips {
 public:
  template <typename... AddendInputs>
  __aicore__ inline void Init(AscendC::TPipe* pipe, const HstuTilingData& tiling, const AddendInputs&... addends) {
    alpha_ = tiling.alpha;
    strip_ = tiling.stripElements;
    const uint32_t floats = tiling.stripElements * static_cast<uint32_t>(sizeof(float));
    pipe->InitBuffer(scores_, 2, floats);
    pipe->InitBuffer(products_, 2, floats);
    pipe->InitBuffer(out_, 2, tiling.stripElements * static_cast<uint32_t>(sizeof(T)));
    pipe->InitBuffer(sigma_, floats);
    pipe->InitBuffer(slope_, floats);
    addends_.Init(pipe, tiling, addends...);
  }
  __aicore__ inline void SetScale(float scale) { scale_ = scale; }

  __aicore__ inline int64_t RowsAtOnce(const Grid& grid) const { return Least(strip_ / grid.pitch, 4095); }

  // Before the strips of a tile.
  __aicore__ inline void OpenTile(const Grid& grid, const Sequence& sequence, const Mask& mask) {
    addends_.OpenTile(sequence, mask, grid.row, grid.rows, grid.column, grid.columns);
  }
  // What the addends sum of the strip's score gradients; those are used up by it.
  __aicore__ inline void SumGradients(const Grid& strip) {
    addends_.SumGradients(dp_, strip.row, strip.rows, strip.column, strip.columns, strip.pitch);
  }
  __aicore__ inline Added& AddendsOf() { return addends_; }

  // Loads the strip and leaves dX in the tensor of products, the weights in the tensor of scores, both in fp32.
  // Finish gives both back.
  __aicore__ inline void Differentiate(const Grid& strip, const Mask& mask, const AscendC::GlobalTensor<float>& scores,
                                       const AscendC::GlobalTensor<float>& products) {
    const int32_t count = strip.Count();
    x_ = Load(scores_, scores, count);
    dp_ = Load(products_, products, count);
    addends_.AddBias(x_, strip.batch, strip.head, strip.row, strip.rows, strip.column, strip.columns, strip.pitch);
    AscendC::LocalTensor<float> sigma = sigma_.Get<float>();
    AscendC::LocalTensor<float> slope = slope_.Get<float>();
    AscendC::Muls(sigma, x_, -alpha_, count);
    Then();
    AscendC::Exp(sigma, sigma, count);
    Then();
    AscendC::Adds(sigma, sigma, 1.0f, count);
    AscendC::Duplicate(slope, 1.0f, count);
    AscendC::Muls(x_, x_, alpha_, count);
    Then();
    AscendC::Div(sigma, slope, sigma, count);
    Then();
    AscendC::Mul(x_, x_, sigma, count);
    Then();
    // sigma (1 + s (1 - sigma)) = sigma + a - a sigma with a = s sigma: finite where exp(-s) overflows.
    AscendC::Mul(slope, x_, sigma, count);
    Then();
    AscendC::Sub(slope, x_, slope, count);
    Then();
    AscendC::Add(slope, slope, sigma, count);
    AscendC::Muls(x_, x_, scale_, count);
    Then();
    AscendC::Mul(dp_, dp_, slope, count);
    Then();
    AscendC::Muls(dp_, dp_, scale_ * alpha_, count);
    Then();
    addends_.LoadMask(strip.batch, strip.head, strip.row, strip.rows, strip.column, strip.columns, strip.pitch);
    addends_.Multiply(x_);
    addends_.Multiply(dp_);
    addends_.Done();
    if (!strip.full) {
      CutRows(x_, mask, strip.row, strip.rows, strip.column, strip.columns, strip.pitch);
      CutRows(dp_, mask, strip.row, strip.rows, strip.column, strip.columns, strip.pitch);
      Then();
    }
  }
  __aicore__ inline const AscendC::LocalTensor<float>& ScoreGradients() const { return dp_; }
  __aicore__ inline void Finish() {
    scores_.FreeTensor(x_);
    products_.FreeTensor(dp_);
  }

  // Stores the strip's weights or score gradients over the fp32 tile they came from, rounded to T.
  __aicore__ inline void StoreWeights(const Grid& strip, const AscendC::GlobalTensor<T>& target) {
    AscendC::LocalTensor<T> rounded = Rounded(x_, strip.Count());
    AscendC::DataCopy(target, rounded, static_cast<uint32_t>(strip.Count()));
    out_.FreeTensor(rounded);
  }
  __aicore__ inline void StoreGradients(const Grid& strip, const AscendC::GlobalTensor<T>& target) {
    AscendC::LocalTensor<T> rounded = Rounded(dp_, strip.Count());
    AscendC::DataCopy(target, rounded, static_cast<uint32_t>(strip.Count()));
    out_.FreeTensor(rounded);
  }
  // The same, and the strip's cells of a square of rows of `size` elements besides.
  __aicore__ inline void StoreGradients(const Grid& strip, const AscendC::GlobalTensor<T>& target,
                                        const AscendC::GlobalTensor<T>& square, int64_t size) {
    AscendC::LocalTensor<T> rounded = Rounded(dp_, strip.Count());
    AscendC::DataCopy(target, rounded, static_cast<uint32_t>(strip.Count()));
    AscendC::DataCopyPad(square, rounded, SquareBursts(strip, size));
    out_.FreeTensor(rounded);
  }
  // Sums of the strip's shape, rounded to cells of a square.
  __aicore__ inline void StoreRounded(const Grid& strip, const AscendC::GlobalTensor<float>& sums,
                                      const AscendC::GlobalTensor<T>& square, int64_t size) {
    AscendC::LocalTensor<float> values = Load(scores_, sums, strip.Count());
    AscendC::LocalTensor<T> rounded = Rounded(values, strip.Count());
    AscendC::DataCopyPad(square, rounded, SquareBursts(strip, size));
    out_.FreeTensor(rounded);
    scores_.FreeTensor(values);
  }
  __aicore__ inline static AscendC::DataCopyExtParams SquareBursts(const Grid& strip, int64_t size) {
    const int64_t element = static_cast<int64_t>(sizeof(T));
    return AscendC::DataCopyExtParams(
        static_cast<uint16_t>(strip.rows), static_cast<uint32_t>(strip.columns * element),
        static_cast<uint32_t>((strip.pitch * element - RoundUp(strip.columns * element, 32)) / 32),
        static_cast<uint32_t>((size - strip.columns) * element), 0);
  }

  using InQueue = AscendC::TQue<AscendC::TPosition::VECIN, 1>;
  using OutQueue = AscendC::TQue<AscendC::TPosition::VECOUT, 1>;
  __aicore__ inline InQueue& In() { return scores_; }
  __aicore__ inline InQueue& More() { return products_; }
  __aicore__ inline OutQueue& Out() { return out_; }
  __aicore__ inline static AscendC::LocalTensor<float> Load(InQueue& queue, const AscendC::GlobalTensor<float>& source,
                                                            int32_t count) {
    AscendC::LocalTensor<float> strip = queue.template AllocTensor<float>();
    AscendC::DataCopy(strip, source, static_cast<uint32_t>(count));
    queue.EnQue(strip);
    return queue.template DeQue<float>();
  }

 private:
  __aicore__ inline AscendC::LocalTensor<T> Rounded(const AscendC::LocalTensor<float>& values, int32_t count) {
    AscendC::LocalTensor<T> rounded = out_.template AllocTensor<T>();
    if constexpr (sizeof(T) == sizeof(float)) {
      AscendC::Adds(rounded, values, 0.0f, count);
    } else {
      AscendC::Cast(rounded, values, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
    }
    out_.EnQue(rounded);
    return out_.template DeQue<T>();
  }

  float alpha_;
  float scale_;
  int64_t strip_;
  Added addends_;
  InQueue scores_;
  InQueue products_;
  OutQueue out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> sigma_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> slope_;
  AscendC::LocalTensor<float> x_;
  AscendC::LocalTensor<float> dp_;
};

}  // namespace hstu
