// WelfordUpdate and WelfordFinalize of the library layer: mean and variance of a long row from its parts.
#pragma once
#include <algorithm>

#include "ascendc/row_tile.h"
#include "kernel_tiling/library_scratch.h"

namespace AscendC {

// abLength: elements of a part as stored; abComputeLength: of them in this one; nRec: 1 / number of parts so far.
struct WelfordUpdateParam {
  uint32_t rnLength;
  uint32_t abLength;
  uint32_t abComputeLength;
  float nRec;
};
// isInplace: what is behind abComputeLength stays as it is in the results; else it is copied from what is updated.
struct WelfordUpdateConfig {
  bool isInplace = false;
};
constexpr WelfordUpdateConfig WFUPDATE_DEFAULT_CFG = {false};

// rnLength parts of abLength elements; where the last one was shorter, headCountLength elements have seen headCount
// parts, and tailCountLength tailCount. abRec: 1 / abLength, rRec: 1 / elements of the row.
struct WelfordFinalizePara {
  uint32_t rnLength;
  uint32_t abLength;
  uint32_t headCount;
  uint32_t headCountLength;
  uint32_t tailCount;
  uint32_t tailCountLength;
  float abRec;
  float rRec;
};

namespace twin_detail {

// The first elements, nothing behind them.
template <typename T>
void WriteFirst(const LocalTensor<T>& dst, const std::vector<float>& values, bool defined) {
  auto& core = twin::Core::Current();
  const uint64_t bytes = values.size() * sizeof(T);
  auto* to = reinterpret_cast<T*>(core.UbWrite(dst.Range(), 0, bytes));
  std::copy(values.begin(), values.end(), to);
  defined ? core.Define(dst.Range(), 0, bytes) : core.Undefine(dst.Range(), 0, bytes);
}

template <typename T, typename U, bool reusesSource, bool isInplace>
void UpdateByWelford(const LocalTensor<U>& outputMean, const LocalTensor<U>& outputVariance,
                     const LocalTensor<U>& inputMean, const LocalTensor<U>& inputVariance, const LocalTensor<T>& inputX,
                     const LocalTensor<uint8_t>* scratch, const WelfordUpdateParam& para) {
  static_assert(kFloating<T>, "E-30: WelfordUpdate takes half and float");
  static_assert(std::is_same<U, float>::value, "E-30: means and variances of WelfordUpdate are float");
  static_assert(!reusesSource || std::is_same<T, float>::value, "E-30: isReuseSource is for float");
  constexpr const char* name = "WelfordUpdate";
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, name);
  const uint32_t columns = para.abLength, counted = para.abComputeLength;
  if (para.rnLength != 1) {
    core.Trap("E-25", "WelfordUpdate: rnLength is %u, it must be 1", para.rnLength);
  }
  CheckRowBytes(name, columns, counted, sizeof(T));
  CheckApart(name, outputMean, columns * sizeof(U), outputVariance, columns * sizeof(U));
  for (const auto* result : {&outputMean, &outputVariance}) {
    CheckApart(name, *result, columns * sizeof(U), inputX, columns * sizeof(T));
    CheckScratch(name, scratch, *result, columns);
  }
  CheckSameOrApart(name, outputMean, inputMean, columns);
  CheckSameOrApart(name, outputVariance, inputVariance, columns);
  CheckApart(name, outputMean, columns * sizeof(U), inputVariance, columns * sizeof(U));
  CheckApart(name, outputVariance, columns * sizeof(U), inputMean, columns * sizeof(U));
  CheckScratch(name, scratch, inputMean, columns);
  CheckScratch(name, scratch, inputVariance, columns);
  CheckScratch(name, scratch, inputX, columns);
  UseScratch(name, scratch, twin::kWelfordLeast);
  bool meansDefined = true, defined = true;
  const std::vector<float> values = ReadRow(inputX, 0, columns, counted, meansDefined);
  std::vector<float> means = ReadRow(inputMean, 0, columns, counted, meansDefined);
  std::vector<float> variances = ReadRow(inputVariance, 0, columns, counted, defined);
  for (uint32_t i = 0; i < counted; ++i) {
    const float before = values[i] - means[i];
    means[i] += before * para.nRec;
    variances[i] += before * (values[i] - means[i]);
  }
  if (!isInplace && counted < columns) {
    bool copied = true;
    WriteFirst(outputMean, ReadRow(inputMean, 0, columns, columns, copied), copied);
    copied = true;
    WriteFirst(outputVariance, ReadRow(inputVariance, 0, columns, columns, copied), copied);
  }
  WriteFirst(outputMean, means, meansDefined);
  WriteFirst(outputVariance, variances, meansDefined && defined);
  if (reusesSource) {
    core.UbWrite(inputX.Range(), 0, columns * sizeof(T));
    core.Undefine(inputX.Range(), 0, columns * sizeof(T));
  }
}

// counts: how many parts each element has seen.
inline void FinalizeByWelford(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance,
                              const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,
                              const LocalTensor<int32_t>* counts, const LocalTensor<uint8_t>* scratch,
                              const WelfordFinalizePara& para) {
  constexpr const char* name = "WelfordFinalize";
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, name);
  const uint32_t columns = para.abLength;
  CheckRowBytes(name, columns, columns, sizeof(float));
  const bool whole = counts == nullptr && para.tailCountLength == 0;
  if (counts == nullptr && !whole && para.headCountLength + para.tailCountLength != columns) {
    core.Trap("E-25", "WelfordFinalize: a head of %u and a tail of %u elements are not abLength, %u",
              para.headCountLength, para.tailCountLength, columns);
  }
  CheckLaneOperand(outputMean);
  CheckLaneOperand(outputVariance);
  CheckApart(name, outputMean, sizeof(float), outputVariance, sizeof(float));
  for (const auto* result : {&outputMean, &outputVariance}) {
    CheckApart(name, *result, sizeof(float), inputMean, columns * sizeof(float));
    CheckApart(name, *result, sizeof(float), inputVariance, columns * sizeof(float));
    CheckScratch(name, scratch, *result, 1);
  }
  CheckScratch(name, scratch, inputMean, columns);
  CheckScratch(name, scratch, inputVariance, columns);
  bool meanDefined = true, defined = true;
  std::vector<float> seen(columns, static_cast<float>(para.rnLength));
  if (counts != nullptr) {
    CheckScratch(name, scratch, *counts, columns);
    seen = ReadRow(*counts, 0, columns, columns, meanDefined);
  } else if (!whole) {
    std::fill(seen.begin(), seen.begin() + para.headCountLength, static_cast<float>(para.headCount));
    std::fill(seen.begin() + para.headCountLength, seen.end(), static_cast<float>(para.tailCount));
  }
  UseScratch(name, scratch, twin::kWelfordLeast);
  const std::vector<float> means = ReadRow(inputMean, 0, columns, columns, meanDefined);
  const std::vector<float> variances = ReadRow(inputVariance, 0, columns, columns, defined);
  float mean = 0, variance = 0;
  for (uint32_t i = 0; i < columns; ++i) {
    mean += whole ? means[i] * para.abRec : means[i] * seen[i] * para.rRec;
  }
  for (uint32_t i = 0; i < columns; ++i) {
    variance += (variances[i] + seen[i] * (means[i] - mean) * (means[i] - mean)) * para.rRec;
  }
  WriteValue(outputMean, 0, mean, meanDefined);
  WriteValue(outputVariance, 0, variance, meanDefined && defined);
}

}  // namespace twin_detail

// Each element's mean and sum of squares so far, with one value more for each.
template <typename T, typename U, bool isReuseSource = false, const WelfordUpdateConfig& config = WFUPDATE_DEFAULT_CFG>
void WelfordUpdate(const LocalTensor<U>& outputMean, const LocalTensor<U>& outputVariance,
                   const LocalTensor<U>& inputMean, const LocalTensor<U>& inputVariance, const LocalTensor<T>& inputX,
                   const LocalTensor<uint8_t>& sharedTmpBuffer, const WelfordUpdateParam& para) {
  twin_detail::UpdateByWelford<T, U, isReuseSource, config.isInplace>(outputMean, outputVariance, inputMean,
                                                                      inputVariance, inputX, &sharedTmpBuffer, para);
}
template <typename T, typename U, bool isReuseSource = false, const WelfordUpdateConfig& config = WFUPDATE_DEFAULT_CFG>
void WelfordUpdate(const LocalTensor<U>& outputMean, const LocalTensor<U>& outputVariance,
                   const LocalTensor<U>& inputMean, const LocalTensor<U>& inputVariance, const LocalTensor<T>& inputX,
                   const WelfordUpdateParam& para) {
  twin_detail::UpdateByWelford<T, U, isReuseSource, config.isInplace>(outputMean, outputVariance, inputMean,
                                                                      inputVariance, inputX, nullptr, para);
}

// Mean and variance of all elements; a value each, at the start of a block.
template <bool isReuseSource = false>
void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance,
                     const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,
                     const LocalTensor<uint8_t>& sharedTmpBuffer, const WelfordFinalizePara& para) {
  twin_detail::FinalizeByWelford(outputMean, outputVariance, inputMean, inputVariance, nullptr, &sharedTmpBuffer, para);
}
template <bool isReuseSource = false>
void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance,
                     const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,
                     const WelfordFinalizePara& para) {
  twin_detail::FinalizeByWelford(outputMean, outputVariance, inputMean, inputVariance, nullptr, nullptr, para);
}
template <bool isReuseSource = false>
void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance,
                     const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,
                     const LocalTensor<int32_t>& counts, const LocalTensor<uint8_t>& sharedTmpBuffer,
                     const WelfordFinalizePara& para) {
  twin_detail::FinalizeByWelford(outputMean, outputVariance, inputMean, inputVariance, &counts, &sharedTmpBuffer, para);
}
template <bool isReuseSource = false>
void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance,
                     const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,
                     const LocalTensor<int32_t>& counts, const WelfordFinalizePara& para) {
  twin_detail::FinalizeByWelford(outputMean, outputVariance, inputMean, inputVariance, &counts, nullptr, para);
}

}  // namespace AscendC
