// Host-side scratch and tilings of LayerNormGrad and LayerNormGradBeta.
#pragma once
#include <algorithm>
#include <cstring>

#include "graph/tensor.h"
#include "kernel_tiling/kernel_tiling.h"
#include "kernel_tiling/library_scratch.h"
#include "register/tilingdata_base.h"

namespace optiling {

// clang-format off: it would indent each line of these lists further than the one before
#define TWIN_LAYERNORM_GRAD_FIELDS(FIELD) \
    FIELD(stackBufferSize) FIELD(bLength) FIELD(sLength) FIELD(hLength) FIELD(originalHLength) \
    FIELD(oneCalSize) FIELD(nohCalSize) FIELD(loopNum) FIELD(tailSize) FIELD(nohTailSize) \
    FIELD(tmpTensorBSHPos) FIELD(tmpTensorBSHSize) FIELD(pdVarTensorPos) FIELD(pdVarTensorSize) \
    FIELD(pdMeanTensorPos) FIELD(pdMeanTensorSize) FIELD(x1TensorPos) FIELD(x1TensorSize) FIELD(x2TensorPos) \
    FIELD(x2TensorSize) FIELD(x3TensorPos) FIELD(x3TensorSize) FIELD(tmpTensorPos) FIELD(tmpTensorSize) \
    FIELD(tmpTensor1Pos) FIELD(tmpTensor1Size) FIELD(tmpTensor2Pos) FIELD(tmpTensor2Size) \
    FIELD(lastDimValueBack) FIELD(lastDimValueBackMulTwo)
#define TWIN_LAYERNORM_GRAD_BETA_FIELDS(FIELD) \
    FIELD(stackBufferSize) FIELD(bLength) FIELD(sLength) FIELD(hLength) FIELD(originalHLength) FIELD(bshLength) \
    FIELD(bsLength) FIELD(oneCalSize) FIELD(numberOfTmpBuf) FIELD(loopRound) FIELD(inputTailSize) \
    FIELD(inputTailPos) FIELD(bsTailSize) FIELD(bshCurLength) FIELD(bsCurLength) FIELD(gammaTempTensorPos) \
    FIELD(betaTempTensorPos) FIELD(inputDyTmpTensorPos) FIELD(resForGammaTmpTensorPos) FIELD(reserved)
// clang-format on
#define TWIN_LAYERNORM_GRAD_FIELD(field) TILING_DATA_FIELD_DEF(uint32_t, field)

BEGIN_TILING_DATA_DEF(LayerNormGradTiling)
TWIN_LAYERNORM_GRAD_FIELDS(TWIN_LAYERNORM_GRAD_FIELD)
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(LayerNormGradTilingOp, LayerNormGradTiling)

BEGIN_TILING_DATA_DEF(LayerNormGradBetaTiling)
TWIN_LAYERNORM_GRAD_BETA_FIELDS(TWIN_LAYERNORM_GRAD_FIELD)
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(LayerNormGradBetaTilingOp, LayerNormGradBetaTiling)

}  // namespace optiling

namespace AscendC {
namespace twin_detail {

// The bits of a float in a field of uint32_t.
inline uint32_t FieldOf(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline uint32_t CountedColumns(const ge::Shape& shape) {
  return static_cast<uint32_t>(shape.GetDim(shape.GetDimNum() > 3 ? 3 : 2));
}

}  // namespace twin_detail

// A shape is [B, S, H as stored, H that counts]; without the last, all that is stored counts.
inline void GetLayerNormGradMaxMinTmpSize(const ge::Shape& srcShape, const uint32_t, const bool, uint32_t& maxValue,
                                          uint32_t& minValue) {
  minValue = static_cast<uint32_t>(twin::LayerNormGradRowBytes(static_cast<uint64_t>(srcShape.GetDim(2))));
  maxValue = minValue * static_cast<uint32_t>(srcShape.GetDim(0) * srcShape.GetDim(1));
}

// Of less work space than the least nothing is computed at once, which the kernel's call refuses.
inline void GetLayerNormGradNDTilingInfo(const ge::Shape& srcShape, const uint32_t stackBufferSize,
                                         const uint32_t typeSize, const bool isReuseSource,
                                         AscendC::tiling::LayerNormGradTiling& tiling) {
  tiling = AscendC::tiling::LayerNormGradTiling{};
  tiling.stackBufferSize = stackBufferSize;
  tiling.bLength = static_cast<uint32_t>(srcShape.GetDim(0));
  tiling.sLength = static_cast<uint32_t>(srcShape.GetDim(1));
  tiling.hLength = static_cast<uint32_t>(srcShape.GetDim(2));
  tiling.originalHLength = twin_detail::CountedColumns(srcShape);
  const uint32_t rows = tiling.bLength * tiling.sLength;
  uint32_t most = 0, least = 0;
  GetLayerNormGradMaxMinTmpSize(srcShape, typeSize, isReuseSource, most, least);
  tiling.nohCalSize = least == 0 ? 0 : std::min(rows, stackBufferSize / least);
  tiling.oneCalSize = tiling.nohCalSize * tiling.hLength;
  if (tiling.nohCalSize != 0) {
    tiling.loopNum = rows / tiling.nohCalSize;
    tiling.nohTailSize = rows % tiling.nohCalSize;
    tiling.tailSize = tiling.nohTailSize * tiling.hLength;
  }
  tiling.x1TensorSize = tiling.x2TensorSize = tiling.x3TensorSize = tiling.oneCalSize;
  tiling.x2TensorPos = tiling.oneCalSize;
  tiling.x3TensorPos = 2 * tiling.oneCalSize;
  if (tiling.originalHLength != 0) {
    const float back = 1.0f / static_cast<float>(tiling.originalHLength);
    tiling.lastDimValueBack = twin_detail::FieldOf(back);
    tiling.lastDimValueBackMulTwo = twin_detail::FieldOf(2.0f * back);
  }
}
inline void GetLayerNormGradNDTilingInfo(const ge::Shape& srcShape, const uint32_t stackBufferSize,
                                         const uint32_t typeSize, const bool isReuseSource,
                                         ::optiling::LayerNormGradTiling& tiling) {
  AscendC::tiling::LayerNormGradTiling plain;
  GetLayerNormGradNDTilingInfo(srcShape, stackBufferSize, typeSize, isReuseSource, plain);
#define TWIN_LAYERNORM_GRAD_COPY(field) tiling.set_##field(plain.field);
  TWIN_LAYERNORM_GRAD_FIELDS(TWIN_LAYERNORM_GRAD_COPY)
}

inline void GetLayerNormGradBetaMaxMinTmpSize(const ge::Shape& srcShape, const uint32_t, const bool, uint32_t& maxValue,
                                              uint32_t& minValue) {
  minValue = static_cast<uint32_t>(twin::LayerNormGradBetaRowBytes(static_cast<uint64_t>(srcShape.GetDim(2))));
  maxValue = minValue * static_cast<uint32_t>(srcShape.GetDim(0) * srcShape.GetDim(1));
}

inline void GetLayerNormGradBetaNDTilingInfo(const ge::Shape& srcShape, const uint32_t stackBufferSize,
                                             const uint32_t typeSize, const bool isReuseSource,
                                             AscendC::tiling::LayerNormGradBetaTiling& tiling) {
  tiling = AscendC::tiling::LayerNormGradBetaTiling{};
  tiling.stackBufferSize = stackBufferSize;
  tiling.bLength = static_cast<uint32_t>(srcShape.GetDim(0));
  tiling.sLength = static_cast<uint32_t>(srcShape.GetDim(1));
  tiling.hLength = static_cast<uint32_t>(srcShape.GetDim(2));
  tiling.originalHLength = twin_detail::CountedColumns(srcShape);
  tiling.bsLength = tiling.bLength * tiling.sLength;
  tiling.bshLength = tiling.bsLength * tiling.hLength;
  uint32_t most = 0, least = 0;
  GetLayerNormGradBetaMaxMinTmpSize(srcShape, typeSize, isReuseSource, most, least);
  tiling.numberOfTmpBuf = 2;
  tiling.bsCurLength = least == 0 ? 0 : std::min(tiling.bsLength, stackBufferSize / least);
  tiling.bshCurLength = tiling.bsCurLength * tiling.hLength;
  tiling.oneCalSize = tiling.bshCurLength;
  tiling.resForGammaTmpTensorPos = tiling.bshCurLength;
  if (tiling.bsCurLength != 0) {
    tiling.loopRound = tiling.bsLength / tiling.bsCurLength;
    tiling.bsTailSize = tiling.bsLength % tiling.bsCurLength;
    tiling.inputTailSize = tiling.bsTailSize * tiling.hLength;
    tiling.inputTailPos = tiling.bshLength - tiling.inputTailSize;
  }
}
inline void GetLayerNormGradBetaNDTilingInfo(const ge::Shape& srcShape, const uint32_t stackBufferSize,
                                             const uint32_t typeSize, const bool isReuseSource,
                                             ::optiling::LayerNormGradBetaTiling& tiling) {
  AscendC::tiling::LayerNormGradBetaTiling plain;
  GetLayerNormGradBetaNDTilingInfo(srcShape, stackBufferSize, typeSize, isReuseSource, plain);
  TWIN_LAYERNORM_GRAD_BETA_FIELDS(TWIN_LAYERNORM_GRAD_COPY)
#undef TWIN_LAYERNORM_GRAD_COPY
}

}  // namespace AscendC

#undef TWIN_LAYERNORM_GRAD_FIELD
#undef TWIN_LAYERNORM_GRAD_FIELDS
#undef TWIN_LAYERNORM_GRAD_BETA_FIELDS
