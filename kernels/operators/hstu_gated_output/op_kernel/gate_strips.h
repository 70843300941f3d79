// What forward and backward pass share: strips of norm(attended), u and the factor of the dropout.
#pragma once
#include "layer_norm.h"

struct GateInputs {
  GM_ADDR attended;
  GM_ADDR u;
  GM_ADDR keep;  // null: all are kept
};

// R: the widest type that is stored.
template <typename T, typename R>
class GateStrips {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const GateInputs& inputs, const LayerTilingData& tiling) {
    width_ = tiling.width;
    scale_ = tiling.scale;
    hasKeep_ = tiling.hasKeep != 0;
    const uint64_t elements = static_cast<uint64_t>(tiling.tokens) * width_;
    attended_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(inputs.attended), elements);
    u_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(inputs.u), elements);
    keep_.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(inputs.keep), hasKeep_ ? elements : 0);
    strips.Init(pipe, tiling.stripElements);
    norm.Init(pipe, width_, tiling.eps);
    const uint32_t bytes = tiling.stripElements * static_cast<uint32_t>(sizeof(float));
    pipe->InitBuffer(normedBuffer_, bytes);
    pipe->InitBuffer(uBuffer_, bytes);
    pipe->InitBuffer(factorBuffer_, bytes);
    pipe->InitBuffer(scratchBuffer_, bytes);
    pipe->InitBuffer(halves_, bytes / 2);
    normed = normedBuffer_.template Get<float>();
    u = uBuffer_.template Get<float>();
    factor = factorBuffer_.template Get<float>();
    scratch = scratchBuffer_.template Get<float>();
  }
  __aicore__ inline layer::Shape ShapeOf(uint32_t rows) const { return {rows, width_, width_}; }
  __aicore__ inline uint64_t At(int64_t token) const { return static_cast<uint64_t>(token) * width_; }

  // normed, u and factor of `rows` tokens.
  __aicore__ inline void Fetch(int64_t token, uint32_t rows) {
    const layer::Shape shape = ShapeOf(rows);
    strips.Fetch(normed, attended_[At(token)], shape);
    strips.Fetch(u, u_[At(token)], shape);
    norm.Apply(normed, scratch, rows);
    if (hasKeep_) {
      strips.FetchBytes(factor, keep_[At(token)], shape, halves_.template Get<half>());
      AscendC::Muls(factor, factor, scale_, shape.Elements());
    } else {
      AscendC::Duplicate(factor, scale_, shape.Elements());
    }
    layer::Then();
  }

  layer::Strips<R> strips;
  layer::Norm norm;
  layer::Floats normed;
  layer::Floats u;
  layer::Floats factor;
  layer::Floats scratch;

 private:
  uint32_t width_;
  float scale_;
  bool hasKeep_;
  AscendC::GlobalTensor<T> attended_;
  AscendC::GlobalTensor<T> u_;
  AscendC::GlobalTensor<uint8_t> keep_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> normedBuffer_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> uBuffer_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> factorBuffer_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> scratchBuffer_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> halves_;
};
