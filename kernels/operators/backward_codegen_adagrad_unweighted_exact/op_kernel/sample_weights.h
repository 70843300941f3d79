// Weights of the samples in a bag (indice_weights): what they do to a contribution, and their own gradient.
#pragma once
#include "row_traffic.h"
#include "sorted_window.h"

class SampleWeights {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const BackwardArguments& in,
                              const BackwardCodegenAdagradUnweightedExactTilingData& tiling) {
    tiling_ = tiling;
    if (tiling.weightsGradient == 0) {
      return;
    }
    pipe->InitBuffer(dots_, tiling.groupRows * SCALAR_LANES * sizeof(float));
    dotsOut_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(in.indiceWeightsGradient),
                             static_cast<uint64_t>(tiling.indexCount));
    factors_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(in.indiceWeights),
                             static_cast<uint64_t>(tiling.indexCount));
    offsets_.Init(in.offsets, tiling.bags + 1, tiling.offsetBytes);
    hasMask_ = in.featureRequiresGrad != nullptr;
    mask_.Init(in.featureRequiresGrad, tiling.features, sizeof(int32_t));
  }

  // With the gradient of indice_weights the record holds the index, and the scale is looked up again.
  __aicore__ inline float ScaleOf(const Contribution& contribution) const {
    if (tiling_.weightsGradient == 0) {
      return FloatOfBits(contribution.extra);
    }
    return factors_.GetValue(contribution.extra) * MeanScale(contribution.source);
  }

  // The products of contributions [first, first + count) with their rows, before any update, lie in `work`, of which
  // the vector unit has just written columns [column, ..). Their sums go to the weights' gradients; of rows wider
  // than a tile, one tile after the other.
  __aicore__ inline void StoreDots(const AscendC::LocalTensor<float>& work, int64_t first, uint32_t count,
                                   int64_t column, const SortedWindow& window, RowTables& tables) {
    const AscendC::LocalTensor<float> dots = dots_.Get<float>();
    const uint32_t pitch = tiling_.tileColumns;
    AscendC::PipeBarrier<PIPE_V>();
    for (uint32_t j = 0; j < count; ++j) {
      if (tables.Select(window.Key(first + j))) {
        Fold(work[j * pitch], Columns(tables, column));
      }
    }
    embedding::Fence<AscendC::HardEvent::V_S>();
    embedding::Fence<AscendC::HardEvent::MTE3_S>();
    for (uint32_t j = 0; j < count; ++j) {
      const Contribution contribution = window.At(first + j);
      float dot = 0.0f;
      if (tables.Select(contribution.key) && Wanted(contribution.source)) {
        dot = FoldedSum(work[j * pitch], Columns(tables, column)) * MeanScale(contribution.source);
      }
      dots.SetValue(j * SCALAR_LANES, dot);
    }
    embedding::Fence<AscendC::HardEvent::S_MTE3>();
    if (column > 0) {
      AscendC::PipeBarrier<PIPE_MTE3>();  // the tile before has stored its part
      AscendC::SetAtomicAdd<float>();
    }
    for (uint32_t j = 0; j < count; ++j) {
      AscendC::DataCopyPad(dotsOut_[window.At(first + j).extra], dots[j * SCALAR_LANES],
                           AscendC::DataCopyExtParams(1, static_cast<uint32_t>(sizeof(float)), 0, 0, 0));
    }
    if (column > 0) {
      AscendC::SetAtomicNone();
    }
    embedding::Fence<AscendC::HardEvent::S_V>();
  }

 private:
  __aicore__ inline uint32_t Columns(const RowTables& tables, int64_t column) const {
    const int64_t left = embedding::Larger(0, tables.Width() - column);
    return static_cast<uint32_t>(embedding::Smaller(left, tiling_.tileColumns));
  }

  __aicore__ inline float MeanScale(uint32_t bag) const {
    if (tiling_.pooling != embedding::POOL_MEAN) {
      return 1.0f;
    }
    return 1.0f / static_cast<float>(offsets_.At(static_cast<int64_t>(bag) + 1) - offsets_.At(bag));
  }

  __aicore__ inline bool Wanted(uint32_t bag) const {
    return !hasMask_ || mask_.At(static_cast<int64_t>(bag) / tiling_.batch) != 0;
  }

  BackwardCodegenAdagradUnweightedExactTilingData tiling_;
  AscendC::GlobalTensor<float> dotsOut_;
  AscendC::GlobalTensor<float> factors_;
  embedding::Integers offsets_;
  embedding::Integers mask_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> dots_;
  bool hasMask_;
};
