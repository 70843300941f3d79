// Host-side scratch and tiling of SoftMax, SimpleSoftMax, SoftmaxFlash, SoftmaxFlashV2 and SoftmaxGrad.
#pragma once
#include <algorithm>

#include "graph/tensor.h"
#include "kernel_tiling/kernel_tiling.h"
#include "kernel_tiling/library_scratch.h"
#include "register/tilingdata_base.h"

namespace optiling {

// clang-format off: it would indent each line of this list further than the one before
#define TWIN_SOFTMAX_FIELDS(FIELD) \
    FIELD(srcM) FIELD(srcK) FIELD(srcSize) FIELD(outMaxM) FIELD(outMaxK) FIELD(outMaxSize) FIELD(splitM) \
    FIELD(splitK) FIELD(splitSize) FIELD(reduceM) FIELD(reduceK) FIELD(reduceSize) FIELD(rangeM) FIELD(tailM) \
    FIELD(tailSplitSize) FIELD(tailReduceSize)
// clang-format on
#define TWIN_SOFTMAX_FIELD(field) TILING_DATA_FIELD_DEF(uint32_t, field)

BEGIN_TILING_DATA_DEF(SoftMaxTiling)
TWIN_SOFTMAX_FIELDS(TWIN_SOFTMAX_FIELD)
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(SoftMaxTilingOp, SoftMaxTiling)

}  // namespace optiling

namespace AscendC {
namespace twin_detail {

inline uint32_t LastDim(const ge::Shape& shape) {
  return shape.GetDimNum() == 0 ? 0 : static_cast<uint32_t>(shape.GetDim(shape.GetDimNum() - 1));
}
inline uint32_t RowsOf(const ge::Shape& shape) {
  const uint32_t last = LastDim(shape);
  return last == 0 ? 0 : static_cast<uint32_t>(shape.GetShapeSize() / last);
}

}  // namespace twin_detail

// The bytes of one row, and of all.
inline uint32_t GetSoftMaxMinTmpSize(const ge::Shape& srcShape, const uint32_t, const bool) {
  return static_cast<uint32_t>(twin::SoftMaxRowBytes(twin_detail::LastDim(srcShape)));
}
inline uint32_t GetSoftMaxMaxTmpSize(const ge::Shape& srcShape, const uint32_t dataTypeSize, const bool isReuseSource) {
  return twin_detail::RowsOf(srcShape) * GetSoftMaxMinTmpSize(srcShape, dataTypeSize, isReuseSource);
}

// Of less work space than the least there are no rows in a split, which the kernel's call refuses.
inline void SoftMaxTilingFunc(const ge::Shape& srcShape, const uint32_t dataTypeSize, const uint32_t localWorkSpaceSize,
                              AscendC::tiling::SoftMaxTiling& tiling) {
  const uint32_t rows = twin_detail::RowsOf(srcShape), columns = twin_detail::LastDim(srcShape);
  const uint32_t rowBytes = static_cast<uint32_t>(twin::SoftMaxRowBytes(columns));
  const uint32_t block = dataTypeSize == 0 ? 0 : 32 / dataTypeSize;
  tiling = AscendC::tiling::SoftMaxTiling{};
  tiling.srcM = rows;
  tiling.srcK = columns;
  tiling.srcSize = rows * columns;
  tiling.outMaxM = rows;
  tiling.outMaxK = block;
  tiling.outMaxSize = rows * block;
  tiling.splitM = std::min(rows, localWorkSpaceSize / rowBytes);
  tiling.splitK = columns;
  tiling.splitSize = tiling.splitM * columns;
  tiling.reduceM = tiling.splitM;
  tiling.reduceK = block;
  tiling.reduceSize = tiling.splitM * block;
  if (tiling.splitM != 0) {
    tiling.rangeM = rows / tiling.splitM;
    tiling.tailM = rows % tiling.splitM;
  }
  tiling.tailSplitSize = tiling.tailM * columns;
  tiling.tailReduceSize = tiling.tailM * block;
}
inline void SoftMaxTilingFunc(const ge::Shape& srcShape, const uint32_t dataTypeSize, const uint32_t localWorkSpaceSize,
                              ::optiling::SoftMaxTiling& tiling) {
  AscendC::tiling::SoftMaxTiling plain;
  SoftMaxTilingFunc(srcShape, dataTypeSize, localWorkSpaceSize, plain);
#define TWIN_SOFTMAX_COPY(field) tiling.set_##field(plain.field);
  TWIN_SOFTMAX_FIELDS(TWIN_SOFTMAX_COPY)
#undef TWIN_SOFTMAX_COPY
}

inline uint32_t GetSoftMaxFlashMinTmpSize(const ge::Shape& srcShape, const uint32_t dataTypeSize, const bool,
                                          const bool isReuseSource) {
  return GetSoftMaxMinTmpSize(srcShape, dataTypeSize, isReuseSource);
}
inline uint32_t GetSoftMaxFlashMaxTmpSize(const ge::Shape& srcShape, const uint32_t dataTypeSize, const bool,
                                          const bool isReuseSource) {
  return GetSoftMaxMaxTmpSize(srcShape, dataTypeSize, isReuseSource);
}
template <typename Tiling>
void SoftMaxFlashTilingFunc(const ge::Shape& srcShape, const uint32_t dataTypeSize, const uint32_t localWorkSpaceSize,
                            Tiling& tiling, const bool = false) {
  SoftMaxTilingFunc(srcShape, dataTypeSize, localWorkSpaceSize, tiling);
}

inline uint32_t GetSoftMaxFlashV2MinTmpSize(const ge::Shape& srcShape, const uint32_t, const uint32_t dataTypeSize2,
                                            const bool, const bool = false, const bool = false) {
  return GetSoftMaxMinTmpSize(srcShape, dataTypeSize2, false);
}
inline uint32_t GetSoftMaxFlashV2MaxTmpSize(const ge::Shape& srcShape, const uint32_t, const uint32_t dataTypeSize2,
                                            const bool, const bool = false, const bool = false) {
  return GetSoftMaxMaxTmpSize(srcShape, dataTypeSize2, false);
}
template <typename Tiling>
void SoftMaxFlashV2TilingFunc(const ge::Shape& srcShape, const uint32_t, const uint32_t dataTypeSize2,
                              const uint32_t localWorkSpaceSize, Tiling& tiling, const bool, const bool = false,
                              const bool = false) {
  SoftMaxTilingFunc(srcShape, dataTypeSize2, localWorkSpaceSize, tiling);
}

inline uint32_t GetSoftMaxGradMinTmpSize(const ge::Shape& srcShape, const uint32_t dataTypeSize, const bool,
                                         const bool isReuseSource) {
  return GetSoftMaxMinTmpSize(srcShape, dataTypeSize, isReuseSource);
}
inline uint32_t GetSoftMaxGradMaxTmpSize(const ge::Shape& srcShape, const uint32_t dataTypeSize, const bool,
                                         const bool isReuseSource) {
  return GetSoftMaxMaxTmpSize(srcShape, dataTypeSize, isReuseSource);
}
template <typename Tiling>
void SoftMaxGradTilingFunc(const ge::Shape& srcShape, const uint32_t dataTypeSize, const uint32_t localWorkSpaceSize,
                           Tiling& softmaxGradTiling, const bool = false) {
  SoftMaxTilingFunc(srcShape, dataTypeSize, localWorkSpaceSize, softmaxGradTiling);
}

}  // namespace AscendC

#undef TWIN_SOFTMAX_FIELD
#undef TWIN_SOFTMAX_FIELDS
