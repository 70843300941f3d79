// LayerNorm of the library layer, with the mean and the variance of each row, or its mean and 1 / deviation.
#pragma once
#include <cmath>

#include "ascendc/row_tile.h"
#include "kernel_tiling/kernel_tiling.h"
#include "kernel_tiling/library_scratch.h"

using AscendC::tiling::LayerNormSeparateTiling;
using AscendC::tiling::LayerNormTiling;

namespace AscendC {

using tiling::LayerNormSeparateTiling;
using tiling::LayerNormTiling;

// Of the LayerNorm that gives 1 / deviation. What is not used is not read.
struct LayerNormConfig {
  bool isNoBeta = false;
  bool isNoGamma = false;
  bool isOnlyOutput = false;
};
constexpr LayerNormConfig LNCFG_NORM = {false, false, false};

// aLength rows of rLength elements, which lie rLengthWithPadding apart.
struct LayerNormPara {
  uint32_t aLength;
  uint32_t rLength;
  uint32_t rLengthWithPadding;
};

namespace twin_detail {

// Mean and variance; `values` become the differences to the mean.
inline void TakeMean(std::vector<float>& values, float reciprocal, float& mean, float& variance) {
  mean = variance = 0;
  for (const float value : values) {
    mean += value * reciprocal;
  }
  for (float& value : values) {
    value -= mean;
    variance += value * value * reciprocal;
  }
}

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
    float mean, variance;
    TakeMean(values, tiling.lastDimValueBack, mean, variance);
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

template <typename U, typename T, bool hasGamma, bool hasBeta>
void NormalizeByDeviation(const LocalTensor<T>& output, const LocalTensor<float>& means,
                          const LocalTensor<float>& reciprocals, const LocalTensor<T>& inputX,
                          const LocalTensor<U>& gamma, const LocalTensor<U>& beta, const LocalTensor<uint8_t>* scratch,
                          float epsilon, const LayerNormPara& para, const LayerNormSeparateTiling& tiling) {
  static_assert(kFloating<T> && kFloating<U>, "E-30: LayerNorm takes half and float");
  static_assert(sizeof(U) >= sizeof(T), "E-30: gamma and beta of LayerNorm are no less precise than its rows");
  constexpr const char* name = "LayerNorm";
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, name);
  const uint32_t rows = para.aLength, columns = para.rLengthWithPadding, counted = para.rLength;
  CheckRowBytes(name, columns, counted, sizeof(T));
  if (rows > tiling.aLength || counted != tiling.rLength) {
    core.Trap("E-25", "LayerNorm of %u rows of %u elements, its tiling is for up to %u rows of %u", rows, counted,
              tiling.aLength, tiling.rLength);
  }
  if (tiling.aCurLength == 0 && rows != 0) {
    core.Trap("E-25",
              "LayerNorm: its tiling was made without isComputeRstd, or for less work space than "
              "GetLayerNormMaxMinTmpSize says");
  }
  const uint64_t bytes = static_cast<uint64_t>(rows) * columns * sizeof(T);
  CheckApart(name, output, bytes, inputX, bytes);
  for (const auto* results : {&means, &reciprocals}) {
    CheckLaneOperand(*results);
    CheckApart(name, *results, rows * sizeof(float), inputX, bytes);
    CheckApart(name, *results, rows * sizeof(float), output, bytes);
    CheckScratch(name, scratch, *results, rows);
  }
  CheckApart(name, means, rows * sizeof(float), reciprocals, rows * sizeof(float));
  CheckScratch(name, scratch, inputX, bytes / sizeof(T));
  CheckScratch(name, scratch, output, bytes / sizeof(T));
  UseScratch(name, scratch, twin::LayerNormRowBytes(tiling.arCurLength));
  bool weightsDefined = true;
  const uint32_t blocks = (counted + kLanesPerBlock<U> - 1) / kLanesPerBlock<U> * kLanesPerBlock<U>;
  const auto weights = [&](const LocalTensor<U>& tensor) {
    CheckApart(name, output, bytes, tensor, blocks * sizeof(U));
    for (const auto* results : {&means, &reciprocals}) {
      CheckApart(name, *results, rows * sizeof(float), tensor, blocks * sizeof(U));
    }
    CheckScratch(name, scratch, tensor, blocks);
    return ReadRow(tensor, 0, blocks, counted, weightsDefined);
  };
  const auto scales = hasGamma ? weights(gamma) : std::vector<float>(counted, 1.0f);
  const auto shifts = hasBeta ? weights(beta) : std::vector<float>(counted, 0.0f);
  for (uint32_t row = 0; row < rows; ++row) {
    bool defined = true;
    std::vector<float> values = ReadRow(inputX, row, columns, counted, defined);
    float mean, variance;
    TakeMean(values, tiling.rValueBack, mean, variance);
    const float reciprocal = 1.0f / std::sqrt(variance + epsilon);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = values[i] * reciprocal * scales[i] + shifts[i];
    }
    WriteRow(output, row, columns, values, defined && weightsDefined);
    WriteValue(means, row, mean, defined);
    WriteValue(reciprocals, row, reciprocal, defined);
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

template <typename U, typename T, bool isReuseSource = false, const LayerNormConfig& config = LNCFG_NORM>
void LayerNorm(const LocalTensor<T>& output, const LocalTensor<float>& outputMean, const LocalTensor<float>& outputRstd,
               const LocalTensor<T>& inputX, const LocalTensor<U>& gamma, const LocalTensor<U>& beta,
               const float epsilon, const LocalTensor<uint8_t>& sharedTmpBuffer, const LayerNormPara& para,
               const LayerNormSeparateTiling& tiling) {
  static_assert(!isReuseSource && !config.isOnlyOutput, "isReuseSource and isOnlyOutput are false: they are reserved");
  twin_detail::NormalizeByDeviation<U, T, !config.isNoGamma, !config.isNoBeta>(
      output, outputMean, outputRstd, inputX, gamma, beta, &sharedTmpBuffer, epsilon, para, tiling);
}
template <typename U, typename T, bool isReuseSource = false, const LayerNormConfig& config = LNCFG_NORM>
void LayerNorm(const LocalTensor<T>& output, const LocalTensor<float>& outputMean, const LocalTensor<float>& outputRstd,
               const LocalTensor<T>& inputX, const LocalTensor<U>& gamma, const LocalTensor<U>& beta,
               const float epsilon, const LayerNormPara& para, const LayerNormSeparateTiling& tiling) {
  static_assert(!isReuseSource && !config.isOnlyOutput, "isReuseSource and isOnlyOutput are false: they are reserved");
  twin_detail::NormalizeByDeviation<U, T, !config.isNoGamma, !config.isNoBeta>(
      output, outputMean, outputRstd, inputX, gamma, beta, nullptr, epsilon, para, tiling);
}

}  // namespace AscendC
