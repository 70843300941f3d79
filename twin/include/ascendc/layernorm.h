// LayerNorm of the library layer, with the mean and the variance of each row.
#pragma once
#include <cmath>

#include "ascendc/row_tile.h"
#include "kernel_tiling/kernel_tiling.h"
#include "kernel_tiling/library_scratch.h"

using AscendC::tiling::LayerNormTiling;

namespace AscendC {

using tiling::LayerNormTiling;

namespace twin_detail {

template <typename T, bool reusesSource>
void NormalizeRows(const LocalTensor<T>& output, const LocalTensor<T>& means, const LocalTensor<T>& variances,
                   const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta,
                   const LocalTensor<uint8_t>* scratch, float epsilon, const LayerNormTiling& tiling) {
  static_assert(kFloating<T>, "E-30: LayerNorm takes half and float");
  constexpr const char* name = "LayerNorm";
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, name);
  const uint32_t rows = tiling.bLength * tiling.sLength, columns = tiling.hLength, counted = tiling.originalHLength;
  CheckRowBytes(name, columns, counted, sizeof(T));
  if (tiling.bsCurLength == 0 && rows != 0) {
    core.Trap("E-25", "LayerNorm: its tiling was made for less work space than GetLayerNormMaxMinTmpSize says");
  }
  const uint64_t elements = static_cast<uint64_t>(rows) * columns;
  CheckSameOrApart(name, output, inputX, elements);
  for (const auto* results : {&means, &variances}) {
    CheckLaneOperand(*results);
    CheckApart(name, *results, rows * sizeof(T), inputX, elements * sizeof(T));
    CheckApart(name, *results, rows * sizeof(T), output, elements * sizeof(T));
    CheckScratch(name, scratch, *results, rows);
  }
  CheckApart(name, means, rows * sizeof(T), variances, rows * sizeof(T));
  for (const auto* weights : {&gamma, &beta}) {
    CheckApart(name, output, elements * sizeof(T), *weights, columns * sizeof(T));
    CheckScratch(name, scratch, *weights, columns);
  }
  CheckScratch(name, scratch, inputX, elements);
  CheckScratch(name, scratch, output, elements);
  UseScratch(name, scratch, tiling.bsCurLength * twin::LayerNormRowBytes(columns));
  bool weightsDefined = true;
  const auto scales = ReadRow(gamma, 0, columns, counted, weightsDefined);
  const auto shifts = ReadRow(beta, 0, columns, counted, weightsDefined);
  for (uint32_t row = 0; row < rows; ++row) {
    bool defined = true;
    std::vector<float> values = ReadRow(inputX, row, columns, counted, defined);
    float mean = 0, variance = 0;
    for (const float value : values) {
      mean += value * tiling.lastDimValueBack;
    }
    for (float& value : values) {
      value -= mean;
      variance += value * value * tiling.lastDimValueBack;
    }
    const float scale = 1.0f / std::sqrt(variance + epsilon);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = values[i] * scale * scales[i] + shifts[i];
    }
    WriteRow(output, row, columns, values, defined && weightsDefined);
    WriteValue(means, row, mean, defined);
    WriteValue(variances, row, variance, defined);
  }
  if (reusesSource) {
    LoseSource(inputX, output, elements);
  }
}

}  // namespace twin_detail

template <typename T, bool isReuseSource = false>
void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,
               const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta,
               const LocalTensor<uint8_t>& sharedTmpBuffer, const T epsilon, const LayerNormTiling& tiling) {
  twin_detail::NormalizeRows<T, isReuseSource>(output, outputMean, outputVariance, inputX, gamma, beta,
                                               &sharedTmpBuffer, static_cast<float>(epsilon), tiling);
}
template <typename T, bool isReuseSource = false>
void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,
               const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta, const T epsilon,
               const LayerNormTiling& tiling) {
  twin_detail::NormalizeRows<T, isReuseSource>(output, outputMean, outputVariance, inputX, gamma, beta, nullptr,
                                               static_cast<float>(epsilon), tiling);
}

}  // namespace AscendC
