// One step of the optimizer on a group of rows in the unified buffer. Rows lie `pitch` lanes apart; element-wise rules
// run over the group at once, row-wise Adagrad needs a scalar per row.
#pragma once
#include "embedding_tables.h"

#include "backward_codegen_adagrad_unweighted_exact_tiling.h"

enum Optimizer : uint32_t { ADAGRAD = 1, ADAM = 2, SGD = 3, ROWWISE_ADAGRAD = 4 };

constexpr uint32_t SCALAR_LANES = 8;  // a row's scalar has 32 bytes of its own

// x[0] + .. + x[count - 1] is x[0] + .. + x[7] afterwards, or of the first `count`. The order depends on count alone.
__aicore__ inline void Fold(const AscendC::LocalTensor<float>& x, uint32_t count) {
  while (count > SCALAR_LANES) {
    const uint32_t half = ((count + 1) / 2 + SCALAR_LANES - 1) / SCALAR_LANES * SCALAR_LANES;
    AscendC::Add(x, x, x[half], static_cast<int32_t>(count - half));
    AscendC::PipeBarrier<PIPE_V>();
    count = half;
  }
}

// The rest of the sum, on the scalar unit.
__aicore__ inline float FoldedSum(const AscendC::LocalTensor<float>& x, uint32_t count) {
  float sum = 0.0f;
  for (uint32_t i = 0; i < (count < SCALAR_LANES ? count : SCALAR_LANES); ++i) {
    sum += x.GetValue(i);
  }
  return sum;
}

struct OptimizerRows {
  AscendC::LocalTensor<float> weights;
  AscendC::LocalTensor<float> momentum1;
  AscendC::LocalTensor<float> momentum2;
  AscendC::LocalTensor<float> gradients;  // not kept
  AscendC::LocalTensor<float> newWeights;
  AscendC::LocalTensor<float> newMomentum1;
  AscendC::LocalTensor<float> newMomentum2;
  uint32_t count;
  uint64_t wanted;  // bit j: row j is updated; what the others become does not matter
};

class RowOptimizer {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const BackwardCodegenAdagradUnweightedExactTilingData& tiling) {
    tiling_ = tiling;
    pitch_ = tiling.tileColumns;
    pipe->InitBuffer(work_, tiling.groupRows * pitch_ * sizeof(float));
    if (tiling.optimizer == ROWWISE_ADAGRAD) {
      pipe->InitBuffer(scalars_, tiling.groupRows * SCALAR_LANES * sizeof(float));
      pipe->InitBuffer(rates_, tiling.groupRows * SCALAR_LANES * sizeof(float));
      AscendC::Duplicate<float>(scalars_.Get<float>(), 0.0f, static_cast<int32_t>(tiling.groupRows * SCALAR_LANES));
      AscendC::PipeBarrier<PIPE_V>();
    }
  }

  // A buffer of the size of the group; free between two steps.
  __aicore__ inline AscendC::LocalTensor<float> Work() { return work_.Get<float>(); }

  // columns: of each row, below the pitch.
  __aicore__ inline void Step(const OptimizerRows& rows, const uint32_t* columns) {
    const int32_t lanes = static_cast<int32_t>(rows.count * pitch_);
    if (tiling_.optimizer == SGD) {
      StepSgd(rows, lanes);
    } else if (tiling_.optimizer == ADAGRAD) {
      StepAdagrad(rows, lanes);
    } else if (tiling_.optimizer == ADAM) {
      StepAdam(rows, lanes);
    } else {
      StepRowwise(rows, columns);
    }
  }

  // The parts of a row-wise step. Of a row wider than a tile the sums between them are those of all its tiles.
  // Sums of squares of the gradients, in Scalars().
  __aicore__ inline void MeasureGradients(const OptimizerRows& rows, const uint32_t* columns) {
    if (tiling_.weightDecayMode == 1) {  // L2: the mean is that of the decayed gradient
      const int32_t lanes = static_cast<int32_t>(rows.count * pitch_);
      AscendC::Muls<float>(rows.newWeights, rows.weights, tiling_.weightDecay, lanes);
      Order();
      AscendC::Add(rows.newWeights, rows.newWeights, rows.gradients, lanes);
      Order();
      SumsOfSquares(rows, rows.newWeights, columns);
    } else {
      SumsOfSquares(rows, rows.gradients, columns);
    }
  }

  // New weights and momentum, from the sums of squares of rows of `widths` columns.
  __aicore__ inline void MoveRows(const OptimizerRows& rows, const uint32_t* columns,
                                  const AscendC::LocalTensor<float>& squares, const uint32_t* widths) {
    const AscendC::LocalTensor<float> scalars = scalars_.Get<float>();
    const AscendC::LocalTensor<float> rates = rates_.Get<float>();
    const int32_t scalarLanes = static_cast<int32_t>(rows.count * SCALAR_LANES);
    TakeScalars(rows, squares, widths);
    AscendC::Add(rows.newMomentum1, rows.momentum1, scalars, scalarLanes);
    Order();
    AscendC::Sqrt(rates, rows.newMomentum1, scalarLanes);
    Order();
    AscendC::Adds<float>(rates, rates, tiling_.eps, scalarLanes);
    AscendC::Duplicate<float>(scalars, tiling_.learningRate, scalarLanes);
    Order();
    AscendC::Div(rates, scalars, rates, scalarLanes);
    embedding::Fence<AscendC::HardEvent::V_S>();
    for (uint32_t j = 0; j < rows.count; ++j) {
      if (Wanted(rows, j)) {
        MoveRow(rows, j, static_cast<int32_t>(columns[j]), rates.GetValue(j * SCALAR_LANES));
      }
    }
    Order();
    embedding::Fence<AscendC::HardEvent::S_V>();
  }

  // Sums of squares of the new weights, in Scalars().
  __aicore__ inline void MeasureRows(const OptimizerRows& rows, const uint32_t* columns) {
    SumsOfSquares(rows, rows.newWeights, columns);
  }

  // Rows of newWeights above max_norm are scaled down to it; `squares` from MeasureRows over all columns of a row.
  __aicore__ inline void LimitNorms(const OptimizerRows& rows, const uint32_t* columns,
                                    const AscendC::LocalTensor<float>& squares) {
    const AscendC::LocalTensor<float> rates = rates_.Get<float>();
    TakeScalars(rows, squares, nullptr);
    AscendC::Sqrt(rates, scalars_.Get<float>(), static_cast<int32_t>(rows.count * SCALAR_LANES));
    embedding::Fence<AscendC::HardEvent::V_S>();
    for (uint32_t j = 0; j < rows.count; ++j) {
      const float norm = rates.GetValue(j * SCALAR_LANES);
      if (Wanted(rows, j) && norm > tiling_.maxNorm) {
        AscendC::Muls<float>(rows.newWeights[j * pitch_], rows.newWeights[j * pitch_], tiling_.maxNorm / norm,
                             static_cast<int32_t>(columns[j]));
      }
    }
    Order();
    embedding::Fence<AscendC::HardEvent::S_V>();
  }

  __aicore__ inline AscendC::LocalTensor<float> Scalars() { return scalars_.Get<float>(); }

 private:
  using Tensor = AscendC::LocalTensor<float>;

  __aicore__ inline static void Order() { AscendC::PipeBarrier<PIPE_V>(); }

  __aicore__ inline void StepSgd(const OptimizerRows& rows, int32_t lanes) {
    AscendC::Muls<float>(rows.gradients, rows.gradients, tiling_.learningRate, lanes);
    Order();
    AscendC::Sub(rows.newWeights, rows.weights, rows.gradients, lanes);
    Order();
  }

  // m += g * g; w -= lr * g / (sqrt(m) + eps)
  __aicore__ inline void StepAdagrad(const OptimizerRows& rows, int32_t lanes) {
    const Tensor work = work_.Get<float>();
    AscendC::Mul(work, rows.gradients, rows.gradients, lanes);
    Order();
    AscendC::Add(rows.newMomentum1, rows.momentum1, work, lanes);
    Order();
    AscendC::Sqrt(work, rows.newMomentum1, lanes);
    Order();
    AscendC::Adds<float>(work, work, tiling_.eps, lanes);
    AscendC::Muls<float>(rows.gradients, rows.gradients, tiling_.learningRate, lanes);
    Order();
    AscendC::Div(rows.gradients, rows.gradients, work, lanes);
    Order();
    AscendC::Sub(rows.newWeights, rows.weights, rows.gradients, lanes);
    Order();
  }

  // result = beta * old + (1 - beta) * x
  __aicore__ inline void Decay(const Tensor& result, const Tensor& old, const Tensor& x, float beta, float rest,
                               int32_t lanes) {
    AscendC::Muls<float>(result, old, beta, lanes);
    AscendC::Muls<float>(x, x, rest, lanes);
    Order();
    AscendC::Add(result, result, x, lanes);
    Order();
  }

  __aicore__ inline void StepAdam(const OptimizerRows& rows, int32_t lanes) {
    const Tensor work = work_.Get<float>();
    AscendC::Mul(work, rows.gradients, rows.gradients, lanes);
    Order();
    Decay(rows.newMomentum2, rows.momentum2, work, tiling_.beta2, tiling_.rest2, lanes);
    Decay(rows.newMomentum1, rows.momentum1, rows.gradients, tiling_.beta1, tiling_.rest1, lanes);
    AscendC::Muls<float>(work, rows.newMomentum2, tiling_.correction2, lanes);
    AscendC::Muls<float>(rows.gradients, rows.newMomentum1, tiling_.correction1, lanes);
    Order();
    AscendC::Sqrt(work, work, lanes);
    Order();
    AscendC::Adds<float>(work, work, tiling_.eps, lanes);
    Order();
    AscendC::Div(rows.gradients, rows.gradients, work, lanes);
    Order();
    if (tiling_.weightDecay != 0.0f) {
      AscendC::Muls<float>(work, rows.weights, tiling_.weightDecay, lanes);
      Order();
      AscendC::Add(rows.gradients, rows.gradients, work, lanes);
      Order();
    }
    StepSgd(rows, lanes);
  }

  __aicore__ inline bool Wanted(const OptimizerRows& rows, uint32_t j) const { return (rows.wanted >> j & 1ULL) != 0; }

  // scalars_[j] = the sum of squares of row j, for the wanted rows.
  __aicore__ inline void SumsOfSquares(const OptimizerRows& rows, const Tensor& values, const uint32_t* columns) {
    const Tensor work = work_.Get<float>();
    const Tensor scalars = scalars_.Get<float>();
    for (uint32_t j = 0; j < rows.count; ++j) {
      if (Wanted(rows, j)) {
        const Tensor row = work[j * pitch_];
        AscendC::Mul(row, values[j * pitch_], values[j * pitch_], static_cast<int32_t>(columns[j]));
        Order();
        Fold(row, columns[j]);
      }
    }
    embedding::Fence<AscendC::HardEvent::V_S>();
    for (uint32_t j = 0; j < rows.count; ++j) {
      if (Wanted(rows, j)) {
        scalars.SetValue(j * SCALAR_LANES, FoldedSum(work[j * pitch_], columns[j]));
      }
    }
    embedding::Fence<AscendC::HardEvent::S_V>();
  }

  __aicore__ inline void StepRowwise(const OptimizerRows& rows, const uint32_t* columns) {
    MeasureGradients(rows, columns);
    MoveRows(rows, columns, Scalars(), columns);
    if (tiling_.maxNorm > 0.0f) {
      MeasureRows(rows, columns);
      LimitNorms(rows, columns, Scalars());
    }
  }

  // scalars_[j] = values[j] / divisors[j] or values[j], for the wanted rows; `values` may be the same tensor.
  __aicore__ inline void TakeScalars(const OptimizerRows& rows, const Tensor& values, const uint32_t* divisors) {
    const Tensor scalars = scalars_.Get<float>();
    embedding::Fence<AscendC::HardEvent::V_S>();
    for (uint32_t j = 0; j < rows.count; ++j) {
      if (Wanted(rows, j)) {
        const float value = values.GetValue(j * SCALAR_LANES);
        scalars.SetValue(j * SCALAR_LANES, divisors == nullptr ? value : value / static_cast<float>(divisors[j]));
      }
    }
    embedding::Fence<AscendC::HardEvent::S_V>();
  }

  // w = keep * w - rate * g
  __aicore__ inline void MoveRow(const OptimizerRows& rows, uint32_t j, int32_t columns, float rate) {
    float keep = 1.0f;
    if (tiling_.weightDecayMode == 1) {
      keep = 1.0f - rate * tiling_.weightDecay;
    } else if (tiling_.weightDecayMode == 2 || tiling_.weightDecayMode == 5) {
      keep = 1.0f - tiling_.learningRate * tiling_.weightDecay;
    }
    const uint32_t at = j * pitch_;
    AscendC::Muls<float>(rows.newWeights[at], rows.weights[at], keep, columns);
    AscendC::Muls<float>(rows.gradients[at], rows.gradients[at], rate, columns);
    Order();
    AscendC::Sub(rows.newWeights[at], rows.newWeights[at], rows.gradients[at], columns);
  }

  BackwardCodegenAdagradUnweightedExactTilingData tiling_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> work_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> scalars_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> rates_;
  uint32_t pitch_;
};
