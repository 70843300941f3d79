// Host-side scratch and tiling of LayerNorm.
#pragma once
#include <algorithm>

#include "graph/tensor.h"
#include "kernel_tiling/kernel_tiling.h"
#include "kernel_tiling/library_scratch.h"
#include "register/tilingdata_base.h"

namespace optiling {

// clang-format off: it would indent each line of this list further than the one before
#define TWIN_LAYERNORM_FIELDS(FIELD) \
    FIELD(bLength) FIELD(sLength) FIELD(hLength) FIELD(originalHLength) FIELD(inputXSize) FIELD(meanVarSize) \
    FIELD(numberOfTmpBuf) FIELD(meanTmpTensorPos) FIELD(meanTmpTensorSize) FIELD(varianceTmpTensorPos) \
    FIELD(varianceTmpTensorSize) FIELD(tmpBufSize) FIELD(oneTmpSize) FIELD(firstTmpStartPos) \
    FIELD(secondTmpStartPos) FIELD(thirdTmpStartPos) FIELD(loopRound) FIELD(inputRoundSize) FIELD(inputTailSize) \
    FIELD(inputTailPos) FIELD(meanVarRoundSize) FIELD(meanVarTailSize) FIELD(meanVarTailPos) FIELD(bshCurLength) \
    FIELD(bsCurLength)
#define TWIN_LAYERNORM_SEPARATE_FIELDS(COUNT, FACTOR) \
    COUNT(aLength) COUNT(rLength) COUNT(halfAddRepeatTimes) COUNT(rHeadLength) FACTOR(k2Rec) FACTOR(k2RRec) \
    COUNT(inputXSize) COUNT(meanVarSize) COUNT(numberOfTmpBuf) COUNT(varianceTmpTensorPos) \
    COUNT(varianceTmpTensorSize) COUNT(tmpBufSize) COUNT(oneTmpSize) COUNT(firstTmpStartPos) \
    COUNT(secondTmpStartPos) COUNT(thirdTmpStartPos) COUNT(loopRound) COUNT(inputRoundSize) COUNT(inputTailSize) \
    COUNT(inputTailPos) COUNT(meanVarRoundSize) COUNT(meanVarTailSize) COUNT(meanVarTailPos) COUNT(arCurLength) \
    COUNT(aCurLength) FACTOR(rValueBack)
// clang-format on
#define TWIN_LAYERNORM_FIELD(field) TILING_DATA_FIELD_DEF(uint32_t, field)
#define TWIN_LAYERNORM_FACTOR(field) TILING_DATA_FIELD_DEF(float, field)

BEGIN_TILING_DATA_DEF(LayerNormTiling)
TWIN_LAYERNORM_FIELDS(TWIN_LAYERNORM_FIELD)
TWIN_LAYERNORM_FACTOR(lastDimValueBack)
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(LayerNormTilingOp, LayerNormTiling)

BEGIN_TILING_DATA_DEF(LayerNormSeparateTiling)
TWIN_LAYERNORM_SEPARATE_FIELDS(TWIN_LAYERNORM_FIELD, TWIN_LAYERNORM_FACTOR)
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(LayerNormSeparateTilingOp, LayerNormSeparateTiling)

}  // namespace optiling

namespace AscendC {

// A shape is [B, S, H as stored, H that counts]; without the last, all that is stored counts.
inline void GetLayerNormMaxMinTmpSize(const ge::Shape& srcShape, const uint32_t, const bool, uint32_t& maxValue,
                                      uint32_t& minValue) {
  minValue = static_cast<uint32_t>(twin::LayerNormRowBytes(static_cast<uint64_t>(srcShape.GetDim(2))));
  maxValue = minValue * static_cast<uint32_t>(srcShape.GetDim(0) * srcShape.GetDim(1));
}

// Of less work space than the least there are no rows in a round, which the kernel's call refuses.
inline void GetLayerNormNDTilingInfo(const ge::Shape& srcShape, const uint32_t stackBufferSize, const uint32_t typeSize,
                                     const bool isReuseSource, AscendC::tiling::LayerNormTiling& tiling) {
  tiling = AscendC::tiling::LayerNormTiling{};
  tiling.bLength = static_cast<uint32_t>(srcShape.GetDim(0));
  tiling.sLength = static_cast<uint32_t>(srcShape.GetDim(1));
  tiling.hLength = static_cast<uint32_t>(srcShape.GetDim(2));
  tiling.originalHLength = srcShape.GetDimNum() > 3 ? static_cast<uint32_t>(srcShape.GetDim(3)) : tiling.hLength;
  const uint32_t rows = tiling.bLength * tiling.sLength;
  uint32_t most = 0, least = 0;
  GetLayerNormMaxMinTmpSize(srcShape, typeSize, isReuseSource, most, least);
  tiling.inputXSize = rows * tiling.hLength;
  tiling.meanVarSize = rows;
  tiling.numberOfTmpBuf = twin::kLayerNormBuffers;
  tiling.bsCurLength = least == 0 ? 0 : std::min(rows, stackBufferSize / least);
  tiling.bshCurLength = tiling.bsCurLength * tiling.hLength;
  tiling.oneTmpSize = tiling.bshCurLength;
  tiling.secondTmpStartPos = tiling.oneTmpSize;
  tiling.tmpBufSize = tiling.oneTmpSize * tiling.numberOfTmpBuf;
  if (tiling.bsCurLength != 0) {
    tiling.loopRound = rows / tiling.bsCurLength;
    tiling.meanVarRoundSize = tiling.bsCurLength;
    tiling.meanVarTailSize = rows % tiling.bsCurLength;
    tiling.meanVarTailPos = rows - tiling.meanVarTailSize;
    tiling.inputRoundSize = tiling.bshCurLength;
    tiling.inputTailSize = tiling.meanVarTailSize * tiling.hLength;
    tiling.inputTailPos = tiling.meanVarTailPos * tiling.hLength;
  }
  tiling.lastDimValueBack = tiling.originalHLength == 0 ? 0 : 1.0f / static_cast<float>(tiling.originalHLength);
}
inline void GetLayerNormNDTilingInfo(const ge::Shape& srcShape, const uint32_t stackBufferSize, const uint32_t typeSize,
                                     const bool isReuseSource, ::optiling::LayerNormTiling& tiling) {
  AscendC::tiling::LayerNormTiling plain;
  GetLayerNormNDTilingInfo(srcShape, stackBufferSize, typeSize, isReuseSource, plain);
#define TWIN_LAYERNORM_COPY(field) tiling.set_##field(plain.field);
  TWIN_LAYERNORM_FIELDS(TWIN_LAYERNORM_COPY)
#undef TWIN_LAYERNORM_COPY
  tiling.set_lastDimValueBack(plain.lastDimValueBack);
}
// The older spelling.
template <typename Tiling>
void GetLayerNormNDTillingInfo(const ge::Shape& srcShape, const uint32_t stackBufferSize, const uint32_t typeSize,
                               const bool isReuseSource, Tiling& tiling) {
  GetLayerNormNDTilingInfo(srcShape, stackBufferSize, typeSize, isReuseSource, tiling);
}

namespace twin_detail {

// Rows of [A, R] as they are stored: whole blocks of 32 bytes.
inline uint32_t StoredColumns(const ge::Shape& shape, uint32_t typeSize) {
  const uint32_t block = typeSize == 0 ? 1 : 32 / typeSize;
  return (static_cast<uint32_t>(shape.GetDim(1)) + block - 1) / block * block;
}

}  // namespace twin_detail

// Of the LayerNorm that gives 1 / deviation: a shape is [A, R].
inline void GetLayerNormMaxMinTmpSize(const ge::Shape& srcShape, const uint32_t typeSize, const bool isReuseSource,
                                      const bool isComputeRstd, const bool, uint32_t& maxValue, uint32_t& minValue) {
  if (!isComputeRstd) {
    GetLayerNormMaxMinTmpSize(srcShape, typeSize, isReuseSource, maxValue, minValue);
    return;
  }
  minValue = static_cast<uint32_t>(twin::LayerNormRowBytes(twin_detail::StoredColumns(srcShape, typeSize)));
  maxValue = minValue * static_cast<uint32_t>(srcShape.GetDim(0));
}
inline void GetLayerNormNDTilingInfo(const ge::Shape& srcShape, const uint32_t stackBufferSize, const uint32_t typeSize,
                                     const bool isReuseSource, const bool isComputeRstd,
                                     AscendC::tiling::LayerNormSeparateTiling& tiling) {
  tiling = AscendC::tiling::LayerNormSeparateTiling{};
  tiling.aLength = static_cast<uint32_t>(srcShape.GetDim(0));
  tiling.rLength = static_cast<uint32_t>(srcShape.GetDim(1));
  const uint32_t columns = twin_detail::StoredColumns(srcShape, typeSize);
  uint32_t most = 0, least = 0;
  GetLayerNormMaxMinTmpSize(srcShape, typeSize, isReuseSource, true, false, most, least);
  tiling.inputXSize = tiling.aLength * columns;
  tiling.meanVarSize = tiling.aLength;
  tiling.numberOfTmpBuf = twin::kLayerNormBuffers;
  tiling.aCurLength = !isComputeRstd || least == 0 ? 0 : std::min(tiling.aLength, stackBufferSize / least);
  tiling.arCurLength = tiling.aCurLength * columns;
  tiling.oneTmpSize = tiling.arCurLength;
  tiling.secondTmpStartPos = tiling.oneTmpSize;
  tiling.tmpBufSize = tiling.oneTmpSize * tiling.numberOfTmpBuf;
  if (tiling.aCurLength != 0) {
    tiling.loopRound = tiling.aLength / tiling.aCurLength;
    tiling.meanVarRoundSize = tiling.aCurLength;
    tiling.meanVarTailSize = tiling.aLength % tiling.aCurLength;
    tiling.meanVarTailPos = tiling.aLength - tiling.meanVarTailSize;
    tiling.inputRoundSize = tiling.arCurLength;
    tiling.inputTailSize = tiling.meanVarTailSize * columns;
    tiling.inputTailPos = tiling.meanVarTailPos * columns;
  }
  tiling.rValueBack = tiling.rLength == 0 ? 0 : 1.0f / static_cast<float>(tiling.rLength);
}
inline void GetLayerNormNDTilingInfo(const ge::Shape& srcShape, const uint32_t stackBufferSize, const uint32_t typeSize,
                                     const bool isReuseSource, const bool isComputeRstd,
                                     ::optiling::LayerNormSeparateTiling& tiling) {
  AscendC::tiling::LayerNormSeparateTiling plain;
  GetLayerNormNDTilingInfo(srcShape, stackBufferSize, typeSize, isReuseSource, isComputeRstd, plain);
#define TWIN_LAYERNORM_COPY(field) tiling.set_##field(plain.field);
  TWIN_LAYERNORM_SEPARATE_FIELDS(TWIN_LAYERNORM_COPY, TWIN_LAYERNORM_COPY)
#undef TWIN_LAYERNORM_COPY
}

}  // namespace AscendC

#undef TWIN_LAYERNORM_FACTOR
#undef TWIN_LAYERNORM_FIELD
#undef TWIN_LAYERNORM_FIELDS
#undef TWIN_LAYERNORM_SEPARATE_FIELDS
