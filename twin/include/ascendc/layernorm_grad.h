// LayerNormGrad and LayerNormGradBeta of the library layer: gradients of LayerNorm's rows, and of its weights.
#pragma once
#include <cmath>

#include "ascendc/row_tile.h"
#include "kernel_tiling/kernel_tiling.h"
#include "kernel_tiling/library_scratch.h"

using AscendC::tiling::LayerNormGradBetaTiling;
using AscendC::tiling::LayerNormGradTiling;

namespace AscendC {

using tiling::LayerNormGradBetaTiling;
using tiling::LayerNormGradTiling;

enum class DataFormat : uint8_t { ND = 0, NZ };
struct LayerNormGradShapeInfo {
  DataFormat dataFormat = DataFormat::ND;
};

namespace twin_detail {

// Rows of a gradient, and of what the gradient of gamma is a sum of.
template <typename T, bool reusesSource>
void NormGradients(const LocalTensor<T>& outputPdX, const LocalTensor<T>& resForGamma, const LocalTensor<T>& inputDy,
                   const LocalTensor<T>& inputX, const LocalTensor<T>& variances, const LocalTensor<T>& means,
                   const LocalTensor<T>& gamma, const LocalTensor<uint8_t>* scratch, float epsilon,
                   const LayerNormGradTiling& tiling, const LayerNormGradShapeInfo& info) {
  static_assert(kFloating<T>, "E-30: LayerNormGrad takes half and float");
  static_assert(!reusesSource || std::is_same<T, float>::value, "E-30: isReuseSource is for float");
  constexpr const char* name = "LayerNormGrad";
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, name);
  const uint32_t rows = tiling.bLength * tiling.sLength, columns = tiling.hLength, counted = tiling.originalHLength;
  CheckRowBytes(name, columns, counted, sizeof(T));
  if (info.dataFormat != DataFormat::ND) {
    core.Trap("E-25", "LayerNormGrad: only the format ND is supported");
  }
  if (tiling.oneCalSize == 0 && rows != 0) {
    core.Trap("E-25", "LayerNormGrad: its tiling was made for less work space than GetLayerNormGradMaxMinTmpSize says");
  }
  const uint64_t elements = static_cast<uint64_t>(rows) * columns;
  CheckApart(name, outputPdX, elements * sizeof(T), resForGamma, elements * sizeof(T));
  for (const auto* result : {&outputPdX, &resForGamma}) {
    CheckSameOrApart(name, *result, inputDy, elements);
    CheckSameOrApart(name, *result, inputX, elements);
    CheckApart(name, *result, elements * sizeof(T), variances, rows * sizeof(T));
    CheckApart(name, *result, elements * sizeof(T), means, rows * sizeof(T));
    CheckApart(name, *result, elements * sizeof(T), gamma, columns * sizeof(T));
    CheckScratch(name, scratch, *result, elements);
  }
  CheckScratch(name, scratch, inputDy, elements);
  CheckScratch(name, scratch, inputX, elements);
  CheckScratch(name, scratch, variances, rows);
  CheckScratch(name, scratch, means, rows);
  CheckScratch(name, scratch, gamma, columns);
  UseScratch(name, scratch, tiling.oneCalSize / columns * twin::LayerNormGradRowBytes(columns));
  bool weightsDefined = true;
  const auto weights = ReadRow(gamma, 0, columns, counted, weightsDefined);
  bool normedDefined = true;
  const auto everyMean = ReadRow(means, 0, rows, rows, normedDefined);
  const auto everyVariance = ReadRow(variances, 0, rows, rows, normedDefined);
  const float back = 1.0f / static_cast<float>(counted);
  for (uint32_t row = 0; row < rows; ++row) {
    bool centeredDefined = normedDefined, defined = weightsDefined;
    std::vector<float> gradients = ReadRow(inputDy, row, columns, counted, defined);
    std::vector<float> centered = ReadRow(inputX, row, columns, counted, centeredDefined);
    const float mean = everyMean[row];
    const float inverse = 1.0f / std::sqrt(everyVariance[row] + epsilon);
    float ofVariance = 0, ofMean = 0, left = 0;
    for (std::size_t i = 0; i < centered.size(); ++i) {
      centered[i] -= mean;
      gradients[i] *= weights[i];
      ofVariance += -0.5f * gradients[i] * centered[i] * inverse * inverse * inverse;
      ofMean -= gradients[i] * inverse;
      left += -2.0f * centered[i];
    }
    ofMean += ofVariance * back * left;
    for (std::size_t i = 0; i < centered.size(); ++i) {
      gradients[i] = gradients[i] * inverse + ofVariance * 2.0f * back * centered[i] + ofMean * back;
      centered[i] *= inverse;
    }
    WriteRow(outputPdX, row, columns, gradients, defined && centeredDefined);
    WriteRow(resForGamma, row, columns, centered, centeredDefined);
  }
  if (reusesSource) {
    for (const auto* source : {&inputDy, &inputX}) {
      if (source->GetPhyAddr() != resForGamma.GetPhyAddr()) {
        LoseSource(*source, outputPdX, elements);
      }
    }
  }
}

// Sums over the rows: of gradient times normalized value, and of the gradient.
template <typename T, bool reusesSource>
void NormWeightGradients(const LocalTensor<T>& outputPdGamma, const LocalTensor<T>& outputPdBeta,
                         const LocalTensor<T>& resForGamma, const LocalTensor<T>& inputDy,
                         const LocalTensor<uint8_t>* scratch, const LayerNormGradBetaTiling& tiling) {
  static_assert(kFloating<T>, "E-30: LayerNormGradBeta takes half and float");
  static_assert(!reusesSource || std::is_same<T, float>::value, "E-30: isReuseSource is for float");
  constexpr const char* name = "LayerNormGradBeta";
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, name);
  const uint32_t rows = tiling.bsLength, columns = tiling.hLength, counted = tiling.originalHLength;
  CheckRowBytes(name, columns, counted, sizeof(T));
  if (tiling.bsCurLength == 0 && rows != 0) {
    core.Trap("E-25",
              "LayerNormGradBeta: its tiling was made for less work space than GetLayerNormGradBetaMaxMinTmpSize says");
  }
  const uint64_t elements = static_cast<uint64_t>(rows) * columns;
  CheckApart(name, outputPdGamma, columns * sizeof(T), outputPdBeta, columns * sizeof(T));
  for (const auto* source : {&resForGamma, &inputDy}) {
    CheckApart(name, outputPdGamma, columns * sizeof(T), *source, elements * sizeof(T));
    CheckApart(name, outputPdBeta, columns * sizeof(T), *source, elements * sizeof(T));
    CheckScratch(name, scratch, *source, elements);
  }
  CheckScratch(name, scratch, outputPdGamma, columns);
  CheckScratch(name, scratch, outputPdBeta, columns);
  UseScratch(name, scratch, tiling.bsCurLength * twin::LayerNormGradBetaRowBytes(columns));
  std::vector<float> ofGamma(counted), ofBeta(counted);
  bool normedDefined = true, gradientsDefined = true;
  for (uint32_t row = 0; row < rows; ++row) {
    const auto normed = ReadRow(resForGamma, row, columns, counted, normedDefined);
    const auto gradients = ReadRow(inputDy, row, columns, counted, gradientsDefined);
    for (uint32_t i = 0; i < counted; ++i) {
      ofGamma[i] += normed[i] * gradients[i];
      ofBeta[i] += gradients[i];
    }
  }
  WriteRow(outputPdGamma, 0, columns, ofGamma, normedDefined && gradientsDefined);
  WriteRow(outputPdBeta, 0, columns, ofBeta, gradientsDefined);
  if (reusesSource) {
    LoseSource(inputDy, outputPdGamma, elements);
  }
}

}  // namespace twin_detail

// Of T from [B, S, H] with variances and means of [B, S]; resForGamma is what LayerNormGradBeta takes.
template <typename T, bool isReuseSource = false>
void LayerNormGrad(const LocalTensor<T>& outputPdX, const LocalTensor<T>& resForGamma, const LocalTensor<T>& inputDy,
                   const LocalTensor<T>& inputX, const LocalTensor<T>& inputVariance, const LocalTensor<T>& inputMean,
                   const LocalTensor<T>& inputGamma, const LocalTensor<uint8_t>& sharedTmpBuffer, T epsilon,
                   const LayerNormGradTiling& tiling, const LayerNormGradShapeInfo& shapeInfo = {}) {
  twin_detail::NormGradients<T, isReuseSource>(outputPdX, resForGamma, inputDy, inputX, inputVariance, inputMean,
                                               inputGamma, &sharedTmpBuffer, static_cast<float>(epsilon), tiling,
                                               shapeInfo);
}
template <typename T, bool isReuseSource = false>
void LayerNormGrad(const LocalTensor<T>& outputPdX, const LocalTensor<T>& resForGamma, const LocalTensor<T>& inputDy,
                   const LocalTensor<T>& inputX, const LocalTensor<T>& inputVariance, const LocalTensor<T>& inputMean,
                   const LocalTensor<T>& inputGamma, T epsilon, const LayerNormGradTiling& tiling,
                   const LayerNormGradShapeInfo& shapeInfo = {}) {
  twin_detail::NormGradients<T, isReuseSource>(outputPdX, resForGamma, inputDy, inputX, inputVariance, inputMean,
                                               inputGamma, nullptr, static_cast<float>(epsilon), tiling, shapeInfo);
}

template <typename T, bool isReuseSource = false>
void LayerNormGradBeta(const LocalTensor<T>& outputPdGamma, const LocalTensor<T>& outputPdBeta,
                       const LocalTensor<T>& resForGamma, const LocalTensor<T>& inputDy,
                       const LocalTensor<uint8_t>& sharedTmpBuffer, const LayerNormGradBetaTiling& tiling) {
  twin_detail::NormWeightGradients<T, isReuseSource>(outputPdGamma, outputPdBeta, resForGamma, inputDy,
                                                     &sharedTmpBuffer, tiling);
}
template <typename T, bool isReuseSource = false>
void LayerNormGradBeta(const LocalTensor<T>& outputPdGamma, const LocalTensor<T>& outputPdBeta,
                       const LocalTensor<T>& resForGamma, const LocalTensor<T>& inputDy,
                       const LayerNormGradBetaTiling& tiling) {
  twin_detail::NormWeightGradients<T, isReuseSource>(outputPdGamma, outputPdBeta, resForGamma, inputDy, nullptr,
                                                     tiling);
}

}  // namespace AscendC
