// RmsNorm of the library layer: rows over the root of their mean square, by weights.
#pragma once
#include <cmath>

#include "ascendc/row_tile.h"
#include "kernel_tiling/kernel_tiling.h"
#include "kernel_tiling/library_scratch.h"

using AscendC::tiling::RmsNormTiling;

namespace AscendC {

using tiling::RmsNormTiling;

namespace twin_detail {

template <typename T, bool isBasicBlock>
void NormalizeByMeanSquare(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma,
                           const LocalTensor<uint8_t>* scratch, float epsilon, const RmsNormTiling& tiling) {
  static_assert(kFloating<T>, "E-30: RmsNorm takes half and float");
  constexpr const char* name = "RmsNorm";
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, name);
  const uint32_t rows = tiling.bLength * tiling.sLength, columns = tiling.hLength, counted = tiling.originalHLength;
  CheckRowBytes(name, columns, counted, sizeof(T));
  if (tiling.mainBsLength == 0 && rows != 0) {
    core.Trap("E-25", "RmsNorm: its tiling was made for less work space than GetRmsNormMaxMinTmpSize says");
  }
  if (isBasicBlock && !twin::IsRmsNormBasicBlock(rows, columns)) {
    core.Trap("E-25",
              "RmsNorm of %u rows of %u elements is no basic block: rows of whole 64 elements, below 2048, and whole 8 "
              "of them",
              rows, columns);
  }
  const uint64_t elements = static_cast<uint64_t>(rows) * columns;
  CheckSameOrApart(name, dst, src, elements);
  CheckApart(name, dst, elements * sizeof(T), gamma, columns * sizeof(T));
  CheckScratch(name, scratch, dst, elements);
  CheckScratch(name, scratch, src, elements);
  CheckScratch(name, scratch, gamma, columns);
  UseScratch(name, scratch, tiling.mainBsLength * twin::RmsNormRowBytes(columns));
  bool weightsDefined = true;
  const auto weights = ReadRow(gamma, 0, columns, counted, weightsDefined);
  for (uint32_t row = 0; row < rows; ++row) {
    bool defined = true;
    std::vector<float> values = ReadRow(src, row, columns, counted, defined);
    float mean = 0;
    for (const float value : values) {
      mean += value * value * tiling.reciprocalOfHLength;
    }
    const float scale = 1.0f / std::sqrt(mean + epsilon);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = values[i] * scale * weights[i];
    }
    WriteRow(dst, row, columns, values, defined && weightsDefined);
  }
}

}  // namespace twin_detail

template <typename T, bool isBasicBlock = false>
void RmsNorm(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, const LocalTensor<T>& gammaLocal,
             const LocalTensor<uint8_t>& sharedTmpBuffer, const T epsilon, const RmsNormTiling& tiling) {
  twin_detail::NormalizeByMeanSquare<T, isBasicBlock>(dstLocal, srcLocal, gammaLocal, &sharedTmpBuffer,
                                                      static_cast<float>(epsilon), tiling);
}
template <typename T, bool isBasicBlock = false>
void RmsNorm(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, const LocalTensor<T>& gammaLocal,
             const T epsilon, const RmsNormTiling& tiling) {
  twin_detail::NormalizeByMeanSquare<T, isBasicBlock>(dstLocal, srcLocal, gammaLocal, nullptr,
                                                      static_cast<float>(epsilon), tiling);
}

}  // namespace AscendC
