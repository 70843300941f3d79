// Host-side scratch of library functions that have no tiling. The sizes are the twin's own: as much as a source, and at
// least one repeat of 256 bytes.
#pragma once
#include <algorithm>

#include "graph/tensor.h"
#include "kernel_tiling/library_scratch.h"
#include "tiling/platform/platform_ascendc.h"

namespace AscendC {
namespace twin_detail {

constexpr uint32_t kLeastScratch = 256;  // one repeat

inline uint32_t LargestScratch(const ge::Shape& shape, uint32_t typeSize) {
  return std::max<uint32_t>(kLeastScratch, static_cast<uint32_t>(shape.GetShapeSize()) * typeSize);
}

}  // namespace twin_detail

// The greatest scratch is maxLiveNodeCount times the source, and extraBuf.
#define TWIN_TMP_SIZES(NAME)                                                                                   \
  inline void Get##NAME##MaxMinTmpSize(const ge::Shape& srcShape, const uint32_t typeSize, const bool,         \
                                       uint32_t& maxValue, uint32_t& minValue) {                               \
    minValue = twin_detail::kLeastScratch;                                                                     \
    maxValue = twin_detail::LargestScratch(srcShape, typeSize);                                                \
  }                                                                                                            \
  inline void Get##NAME##TmpBufferFactorSize(const uint32_t, uint32_t& maxLiveNodeCount, uint32_t& extraBuf) { \
    maxLiveNodeCount = 1;                                                                                      \
    extraBuf = 0;                                                                                              \
  }
TWIN_TMP_SIZES(Sigmoid)
TWIN_TMP_SIZES(Tanh)
TWIN_TMP_SIZES(Sin)
TWIN_TMP_SIZES(Cos)
TWIN_TMP_SIZES(Tan)
TWIN_TMP_SIZES(Asin)
TWIN_TMP_SIZES(Acos)
TWIN_TMP_SIZES(Atan)
TWIN_TMP_SIZES(Sinh)
TWIN_TMP_SIZES(Cosh)
TWIN_TMP_SIZES(Asinh)
TWIN_TMP_SIZES(Acosh)
TWIN_TMP_SIZES(Atanh)
TWIN_TMP_SIZES(Erf)
TWIN_TMP_SIZES(Erfc)
TWIN_TMP_SIZES(Floor)
TWIN_TMP_SIZES(Ceil)
TWIN_TMP_SIZES(Round)
TWIN_TMP_SIZES(Trunc)
TWIN_TMP_SIZES(Frac)
TWIN_TMP_SIZES(Sign)
TWIN_TMP_SIZES(Log)
TWIN_TMP_SIZES(Log2)
TWIN_TMP_SIZES(Log10)
#undef TWIN_TMP_SIZES

inline uint32_t GetGeluMinTmpSize(const ge::Shape&, const uint32_t) { return twin_detail::kLeastScratch; }
inline uint32_t GetGeluMaxTmpSize(const ge::Shape& srcShape, const uint32_t typeSize) {
  return twin_detail::LargestScratch(srcShape, typeSize);
}
inline void GetGeluMaxMinTmpSize(const ge::Shape& srcShape, const uint32_t typeSize, uint32_t& maxValue,
                                 uint32_t& minValue) {
  maxValue = GetGeluMaxTmpSize(srcShape, typeSize);
  minValue = GetGeluMinTmpSize(srcShape, typeSize);
}

// Of ClampMax and ClampMin.
inline void GetClampMaxMinTmpSize(const ge::Shape& srcShape, const uint32_t typeSize, const bool, uint32_t& maxValue,
                                  uint32_t& minValue) {
  minValue = twin_detail::kLeastScratch;
  maxValue = twin_detail::LargestScratch(srcShape, typeSize);
}

// One of the shapes may be that of a scalar.
inline void GetPowerMaxMinTmpSize(const ge::Shape& srcShape1, const ge::Shape& srcShape2, const bool,
                                  const uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue) {
  minValue = twin_detail::kLeastScratch;
  maxValue =
      std::max(twin_detail::LargestScratch(srcShape1, typeSize), twin_detail::LargestScratch(srcShape2, typeSize));
}

// Rows of n elements; the most is the least.
inline void GetSumMaxMinTmpSize(const uint32_t n, const uint32_t typeSize, const bool, uint32_t& maxSize,
                                uint32_t& minSize) {
  minSize = std::max<uint32_t>(twin_detail::kLeastScratch, n * typeSize);
  maxSize = minSize;
}

inline void GetBroadCastMaxMinTmpSize(const platform_ascendc::PlatformAscendC&, const ge::Shape&,
                                      const ge::Shape& dstShape, uint32_t typeSize, const bool, uint32_t& maxValue,
                                      uint32_t& minValue) {
  minValue = twin_detail::kLeastScratch;
  maxValue = twin_detail::LargestScratch(dstShape, typeSize);
}

// A shape is [rnLength, abLength], and [abLength] of the last step.
inline void GetWelfordUpdateMaxMinTmpSize(const ge::Shape& srcShape, const uint32_t, const uint32_t, const bool,
                                          const bool, uint32_t& maxValue, uint32_t& minValue) {
  minValue = static_cast<uint32_t>(twin::kWelfordLeast);
  maxValue = static_cast<uint32_t>(twin::WelfordMost(static_cast<uint64_t>(srcShape.GetDim(1))));
}
inline void GetWelfordFinalizeMaxMinTmpSize(const ge::Shape& srcShape, const uint32_t, const bool, uint32_t& maxValue,
                                            uint32_t& minValue) {
  minValue = static_cast<uint32_t>(twin::kWelfordLeast);
  maxValue = static_cast<uint32_t>(twin::WelfordMost(static_cast<uint64_t>(srcShape.GetDim(0))));
}

}  // namespace AscendC
